//! Calls: what the owners of nodes ask each other, on a lane of its own.
//!
//! A body goes out, [`CallHandler::call`] makes another of it on the other node, which comes back.
//! Calls overlap, and are answered in whatever order their handlers finish.
//!
//! What is kept here: of an error the caller knows whether its request can have reached the handler.
//!
//! Not here: what the bodies mean, and repeating anything.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout_at;

use crate::ids::{GroupId, NodeId};
use crate::tasks::Tasks;

use super::links::{LinkError, Links};
use super::messages::{Lane, Request, RequestKind, answer};

/// The most bytes a request or an answer may have. Half a frame, so that what surrounds it fits.
pub(crate) const CALL_BYTES_MAX: usize = 4 << 20;

/// Calls from one node to one other that may be on their way at once. Enough for 256 a second that
/// take two seconds each.
pub(crate) const CALLS_AT_ONCE_MAX: usize = 512;

/// In front of an answer: what the handler said follows.
const ANSWERED: u8 = 0;

/// In front of an answer: the handler had the request, and why there is no answer follows.
const LOST: u8 = 1;

/// Answers other nodes' calls, see [`crate::Host::serve_calls`].
pub trait CallHandler: Send + Sync {
    /// Answers what node `from` asks. Runs to its end also if the caller has given up, but not
    /// beyond the end of this node. An answer of more than 4 MiB is not sent.
    fn call(&self, from: NodeId, body: Bytes) -> BoxFuture<'static, Bytes>;
}

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Nothing happened, and nothing will: no byte of the request has left, and none will.
    #[error("the call was not sent: {detail}")]
    NotSent {
        /// Why, for people.
        detail: String,
    },
    /// The handler may have the request, may get it yet, or never.
    #[error("the call was sent and has no answer: {detail}")]
    MaybeSent {
        /// Why, for people.
        detail: String,
    },
    /// Nothing happened, and nothing will: no handler was given the request, because the peer has
    /// none or too many calls already, or because the call can not be made.
    #[error("the call was refused: {detail}")]
    Refused {
        /// Why, for people.
        detail: String,
    },
}

/// Who answers calls, if anybody does. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Handler {
    current: Arc<RwLock<Option<Arc<dyn CallHandler>>>>,
}

impl Handler {
    pub(crate) fn set(&self, handler: Option<Arc<dyn CallHandler>>) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = handler;
    }

    fn get(&self) -> Option<Arc<dyn CallHandler>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Links {
    /// Calls `peer` and waits for the answer until `deadline`.
    pub(crate) async fn call(
        &self,
        peer: NodeId,
        body: Bytes,
        deadline: Instant,
    ) -> Result<Bytes, CallError> {
        if body.len() > CALL_BYTES_MAX {
            let detail = format!("a request has at most {CALL_BYTES_MAX} bytes");
            return Err(CallError::Refused { detail });
        }
        let not_sent = |detail: String| CallError::NotSent { detail };
        let late = || not_sent("not in time".to_owned());
        let waiting = timeout_at(deadline.into(), self.calls_at_once(peer).acquire_owned());
        let permit = waiting.await.map_err(|_elapsed| late())?;
        let _permit = permit.map_err(|closed| not_sent(closed.to_string()))?;
        let encode = |encoder: &mut crate::codec::Encoder| {
            encoder.raw(&body);
        };
        let sending = self.send((peer, Lane::Calls), RequestKind::Call, GroupId(0), encode);
        let sent = timeout_at(deadline.into(), sending).await.map_err(|_elapsed| late())?;
        let mut pending = sent.map_err(|error| not_sent(error.to_string()))?;
        let outcome = timeout_at(deadline.into(), pending.wait()).await;
        let was_sent = pending.give_up();
        let detail = match outcome {
            Ok(Ok(answer)) => return decode(answer),
            Ok(Err(LinkError::Refused { detail, .. })) => {
                return Err(CallError::Refused { detail });
            }
            Ok(Err(error)) => error.to_string(),
            Err(_elapsed) => "not in time".to_owned(),
        };
        Err(if was_sent { CallError::MaybeSent { detail } } else { CallError::NotSent { detail } })
    }
}

fn decode(mut body: Bytes) -> Result<Bytes, CallError> {
    let detail = match body.first() {
        Some(_) if body.len() > CALL_BYTES_MAX + 1 => "its answer is too large".to_owned(),
        Some(&ANSWERED) => return Ok(body.split_off(1)),
        Some(&LOST) => String::from_utf8_lossy(&body.split_off(1)).into_owned(),
        _ => "an answer that this release does not understand".to_owned(),
    };
    Err(CallError::MaybeSent { detail })
}

/// The calls that arrive on one connection.
pub(super) struct IncomingCalls {
    from: NodeId,
    handler: Handler,
    answers: mpsc::Sender<Vec<u8>>,
    tasks: Tasks,
    at_once: Arc<Semaphore>,
}

impl IncomingCalls {
    pub(super) fn new(
        from: NodeId,
        handler: Handler,
        answers: mpsc::Sender<Vec<u8>>,
        tasks: Tasks,
    ) -> Self {
        let at_once = Arc::new(Semaphore::new(CALLS_AT_ONCE_MAX));
        Self { from, handler, answers, tasks, at_once }
    }

    /// Has a call answered, or says why not. Never waits, so that the peer hears at any time that
    /// this node is there.
    pub(super) fn begin(&self, request: Request) -> Result<(), String> {
        if request.body.len() > CALL_BYTES_MAX {
            return Err(format!("a request has at most {CALL_BYTES_MAX} bytes"));
        }
        let Some(handler) = self.handler.get() else {
            return Err("this node answers no calls".to_owned());
        };
        // Those whose callers have given up count too.
        let permit = Arc::clone(&self.at_once).try_acquire_owned();
        let permit = permit.map_err(|_none| format!("{CALLS_AT_ONCE_MAX} calls are under way"))?;
        let mut owed = Owed { number: request.number, answers: Some(self.answers.clone()) };
        let from = self.from;
        self.tasks.spawn(async move {
            let _permit = permit;
            let body = handler.call(from, request.body).await;
            owed.pay(from, &body).await;
        });
        Ok(())
    }
}

/// An answer that the caller hears also if the handler panics.
struct Owed {
    number: u64,
    /// `None` once it was given.
    answers: Option<mpsc::Sender<Vec<u8>>>,
}

impl Owed {
    async fn pay(&mut self, to: NodeId, body: &[u8]) {
        let payload = if body.len() > CALL_BYTES_MAX {
            tracing::error!(peer = %to, bytes = body.len(), "an answer to a call is too large");
            self.lost(&format!("the answer has more than {CALL_BYTES_MAX} bytes"))
        } else {
            answer(self.number, Ok([&[ANSWERED], body].concat()))
        };
        if let Some(answers) = self.answers.take() {
            // The connection may be gone, and with it whoever asked.
            drop(answers.send(payload).await);
        }
    }

    fn lost(&self, text: &str) -> Vec<u8> {
        answer(self.number, Ok([&[LOST], text.as_bytes()].concat()))
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        let payload = self.lost("the handler gave up");
        if let Some(answers) = self.answers.take() {
            // Where there is no room, or nobody, the caller's deadline says the same.
            drop(answers.try_send(payload));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::messages::decode_answer;
    use super::*;

    /// Gives back what it gets.
    struct Echo;

    impl CallHandler for Echo {
        fn call(&self, _: NodeId, body: Bytes) -> BoxFuture<'static, Bytes> {
            Box::pin(async move { body })
        }
    }

    #[tokio::test]
    async fn neither_side_trusts_the_other_to_keep_the_limit() {
        let handler = Handler::default();
        handler.set(Some(Arc::new(Echo)));
        let (answers, mut answered) = mpsc::channel(1);
        let tasks = Tasks::new();
        let calls = IncomingCalls::new(NodeId(2), handler, answers, tasks.clone());
        let request = |bytes: usize| Request {
            number: 5,
            kind: RequestKind::Call,
            group: GroupId(0),
            body: Bytes::from(vec![7; bytes]),
        };
        assert!(calls.begin(request(CALL_BYTES_MAX + 1)).is_err());
        assert_eq!(calls.begin(request(CALL_BYTES_MAX)), Ok(()));
        let payload = Bytes::from(answered.recv().await.unwrap());
        let body = decode_answer(&payload).unwrap().outcome.unwrap();
        assert_eq!(decode(body.clone()).map(|body| body.len()), Ok(CALL_BYTES_MAX));
        let longer = Bytes::from([&body[..], &[7]].concat());
        assert!(matches!(decode(longer), Err(CallError::MaybeSent { .. })));
        tasks.end().await;
    }
}
