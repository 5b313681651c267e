//! A receiver of webhooks in this process, which does with each tenant's events what the test says.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use sha2::Sha256;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long an event may take to come: as long as anything may that is waited for.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// What becomes of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is taken.
    Taken,
    /// It is refused.
    Refused,
    /// It is sent elsewhere.
    Redirected,
    /// It is never answered.
    Held,
}

/// What a receiver got.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    pub(crate) id: String,
    pub(crate) timestamp: String,
    pub(crate) signature: String,
    pub(crate) path: String,
    pub(crate) body: Bytes,
    pub(crate) fate: Fate,
}

impl Got {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn tenant(&self) -> String {
        self.json()["data"]["tenant"].as_str().unwrap().to_owned()
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.json()["data"]["entry"]["sequence"].as_str().unwrap().parse().unwrap()
    }

    /// How many of the signatures are made with `secret`.
    pub(crate) fn signed_by(&self, secret: &str) -> usize {
        let key = BASE64.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
        mac.update(format!("{}.{}.", self.id, self.timestamp).as_bytes());
        mac.update(&self.body);
        let expected = format!("v1,{}", BASE64.encode(mac.finalize().into_bytes()));
        self.signature.split(' ').filter(|signature| *signature == expected).count()
    }
}

#[derive(Default)]
struct State {
    got: Vec<Got>,
    fates: BTreeMap<String, Fate>,
    connections: usize,
}

/// See the module's documentation. Ends when it is dropped.
pub(crate) struct Receiver {
    state: Arc<Mutex<State>>,
    /// Changes whenever something has come.
    news: watch::Sender<()>,
    port: u16,
    _tasks: JoinSet<()>,
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::<Mutex<State>>::default();
        let mut tasks = JoinSet::new();
        let (shared, news) = (Arc::clone(&state), watch::Sender::new(()));
        let tell = news.clone();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                shared.lock().unwrap().connections += 1;
                let shared = (Arc::clone(&shared), tell.clone());
                let service = service_fn(move |request| answer(shared.clone(), request));
                let builder = hyper::server::conn::http1::Builder::new();
                let connection = builder.serve_connection(TokioIo::new(stream), service);
                connections.spawn(async move {
                    // The other side closes connections as it likes.
                    drop(connection.await);
                });
            }
        });
        Self { state, news, port, _tasks: tasks }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook?from=purser", self.port)
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// From now on this becomes of a tenant's events.
    pub(crate) fn set(&self, tenant: &str, fate: Fate) {
        self.state.lock().unwrap().fates.insert(tenant.to_owned(), fate);
    }

    pub(crate) fn got(&self) -> Vec<Got> {
        self.state.lock().unwrap().got.clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.state.lock().unwrap().connections
    }

    /// Waits until what was taken of a tenant is as wished; gives the sequences.
    pub(crate) async fn until_taken(
        &self,
        tenant: &str,
        is_it: impl Fn(&[u64]) -> bool,
    ) -> Vec<u64> {
        let mut news = self.news.subscribe();
        loop {
            let taken = self.taken(tenant);
            if is_it(&taken) {
                return taken;
            }
            let came = tokio::time::timeout(WAIT_MAX, news.changed()).await;
            assert!(came.is_ok(), "nothing comes any more; of {tenant} {taken:?} were taken");
        }
    }

    /// The sequences of a tenant's events that were taken, in the order in which they came.
    pub(crate) fn taken(&self, tenant: &str) -> Vec<u64> {
        let got = self.got().into_iter();
        let taken = got.filter(|got| got.fate == Fate::Taken && got.tenant() == tenant);
        taken.map(|got| got.sequence()).collect()
    }
}

async fn answer(
    (state, news): (Arc<Mutex<State>>, watch::Sender<()>),
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let text = |name: &str| head.headers[name].to_str().unwrap().to_owned();
    let (id, timestamp) = (text("webhook-id"), text("webhook-timestamp"));
    let signature = text("webhook-signature");
    let Ok(body) = body.collect().await else { return Ok(Response::default()) };
    let body = body.to_bytes();
    let path = head.uri.to_string();
    let mut got = Got { id, timestamp, signature, path, body, fate: Fate::Taken };
    {
        let mut state = state.lock().unwrap();
        got.fate = state.fates.get(&got.tenant()).copied().unwrap_or(Fate::Taken);
        state.got.push(got.clone());
    }
    news.send_replace(());
    let response = match got.fate {
        Fate::Taken => Response::builder().status(204),
        Fate::Refused => Response::builder().status(503),
        Fate::Redirected => Response::builder().status(307).header("location", "/elsewhere"),
        Fate::Held => std::future::pending().await,
    };
    Ok(response.body(Full::default()).unwrap())
}
