//! Looks names up, for all webhooks of the process.
//!
//! The system's look-up holds a thread until it ends, and cannot be stopped. So few run at once, whoever
//! waits for them gives up after a while, and the place of one that hangs is free again only when it ends:
//! a resolver that does not answer takes no threads from what else the node does.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// How many names are looked up at once.
const LOOKUPS_MAX: usize = 16;

/// How many of them are look-ups of one name: one whose servers are silent must not take the places of all
/// others.
const OF_A_NAME_MAX: usize = 2;

/// How long a look-up may take, with the wait for its turn: less than a connection may.
const PATIENCE: Duration = Duration::from_secs(4);

/// The process's.
pub(super) static RESOLVER: LazyLock<Resolver> =
    LazyLock::new(|| Resolver::new(PATIENCE, |name| Ok(name.to_socket_addrs()?.collect())));

/// A name and a port.
type Name = (String, u16);

type LookUp = dyn Fn(Name) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// See the module's documentation.
pub(super) struct Resolver {
    places: Arc<Semaphore>,
    /// The places of each name that is asked for now.
    names: Mutex<BTreeMap<Name, Weak<Semaphore>>>,
    patience: Duration,
    look_up: Arc<LookUp>,
}

/// Why a name has no addresses.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolveError {
    /// It has none.
    #[error("it has no addresses")]
    None,
    /// Nobody knows it.
    #[error("it was not found")]
    NotFound(#[source] io::Error),
    /// Nobody has answered.
    #[error("there was no answer in time")]
    TooLate,
}

impl Resolver {
    fn new(
        patience: Duration,
        look_up: impl Fn(Name) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Self {
        let places = Arc::new(Semaphore::new(LOOKUPS_MAX));
        Self { places, names: Mutex::default(), patience, look_up: Arc::new(look_up) }
    }

    /// The addresses of a host, which may be an address itself.
    pub(super) async fn resolve(
        &self,
        host: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, ResolveError> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let found = tokio::time::timeout(self.patience, self.look_up((host.to_owned(), port)));
        let found = found.await.map_err(|_elapsed| ResolveError::TooLate)??;
        if found.is_empty() { Err(ResolveError::None) } else { Ok(found) }
    }

    async fn look_up(&self, name: Name) -> Result<Vec<SocketAddr>, ResolveError> {
        let failed = |error| ResolveError::NotFound(error);
        let closed = |closed| failed(io::Error::other(closed));
        // Order matters: who waits for his name's turn keeps no place from others.
        let of_name = self.places_of(&name).acquire_owned().await.map_err(closed)?;
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(closed)?;
        let look_up = Arc::clone(&self.look_up);
        let looking = spawn_blocking(move || {
            let found = look_up(name);
            drop((of_name, place));
            found
        });
        looking.await.map_err(|ended| failed(ended.into()))?.map_err(failed)
    }

    fn places_of(&self, name: &Name) -> Arc<Semaphore> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(places) = names.get(name).and_then(Weak::upgrade) {
            return places;
        }
        names.retain(|_, places| places.strong_count() > 0);
        let places = Arc::new(Semaphore::new(OF_A_NAME_MAX));
        names.insert(name.clone(), Arc::downgrade(&places));
        places
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn look_ups_that_hang_take_no_more_threads_than_they_may_and_are_given_up() {
        let started = Arc::new(AtomicUsize::new(0));
        let (release, hold) = mpsc::channel::<()>();
        let hold = Mutex::new(hold);
        let count = Arc::clone(&started);
        let address: SocketAddr = "1.1.1.1:443".parse().unwrap();
        let mut resolver = Resolver::new(Duration::from_millis(50), move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            // Until the test lets go of the other end.
            let _ended = hold.lock().unwrap().recv();
            Ok(vec![address])
        });
        // One name whose servers are silent has not all of the places.
        let hanging = (0..3 * LOOKUPS_MAX).map(|_| resolver.resolve("a.example", 443));
        for ended in futures_util::future::join_all(hanging).await {
            assert!(matches!(ended, Err(ResolveError::TooLate)), "{ended:?}");
        }
        assert_eq!(started.load(Ordering::SeqCst), OF_A_NAME_MAX);
        let names: Vec<String> = (0..3 * LOOKUPS_MAX).map(|it| format!("{it}.example")).collect();
        let hanging = names.iter().map(|name| resolver.resolve(name, 443));
        for ended in futures_util::future::join_all(hanging).await {
            assert!(matches!(ended, Err(ResolveError::TooLate)), "{ended:?}");
        }
        assert_eq!(started.load(Ordering::SeqCst), LOOKUPS_MAX);
        // What needs no look-up waits for none.
        assert_eq!(resolver.resolve("1.1.1.1", 443).await.unwrap(), [address]);
        // When those that hang have ended, their places are free again.
        drop(release);
        resolver.patience = Duration::from_secs(60);
        assert_eq!(resolver.resolve("a.example", 443).await.unwrap(), [address]);
    }

    #[tokio::test]
    async fn a_name_without_addresses_is_none() {
        let resolver = Resolver::new(Duration::from_secs(60), |_| Ok(Vec::new()));
        let none = resolver.resolve("a.example", 443).await;
        assert!(matches!(none, Err(ResolveError::None)), "{none:?}");
    }
}
