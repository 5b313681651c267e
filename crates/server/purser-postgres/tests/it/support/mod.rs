//! What the tests share: a server, a proxy before it, ledgers in memory, and what both should agree on.

pub(crate) mod agreement;
pub(crate) mod books;
pub(crate) mod proxy;
pub(crate) mod random;
pub(crate) mod secure;
pub(crate) mod server;

use std::time::Duration;

use purser_postgres::{Database, Progress, ProjectError, Projector, ProjectorSettings, Shard};

use self::books::Told;

/// Runs until the test ends: what carries bytes has no end of its own.
#[expect(clippy::disallowed_methods, reason = "ends with the runtime of its test")]
pub(crate) fn in_background(task: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::spawn(task));
}

/// The shard that most tests are about.
pub(crate) fn shard() -> Shard {
    Shard::parse("eu/0").unwrap()
}

/// A projector that waits for nobody.
pub(crate) fn projector(database: &Database, told: Told, page: usize) -> Projector<Told> {
    let settings = ProjectorSettings {
        page_entries_max: page,
        idle: Duration::ZERO,
        retry_first: Duration::ZERO,
        retry_max: Duration::ZERO,
    };
    Projector::new(database.clone(), shard(), told, settings)
}

/// Projects all that there is.
pub(crate) async fn project(database: &Database, told: Told) -> Result<Progress, ProjectError> {
    projector(database, told, 100).catch_up().await
}
