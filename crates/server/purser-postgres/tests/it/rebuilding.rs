//! Finding what is wrong with the tables, and building them again.

use purser_ledger::{AccountName, Open, Operation, Policy, Residence};
use purser_postgres::{
    Cursor, Database, Event, History, Page, ProjectError, Projector, ProjectorSettings, Shard,
    Source, SourceError, Verification, rebuild, verify,
};
use purser_types::Region;
use tokio::sync::{Notify, Semaphore};

use crate::support::agreement::check_agrees;
use crate::support::books::{Books, Told, at, authorize, capture, charge, grant, release};
use crate::support::server::TestDatabase;
use crate::support::{project, projector, random, shard};

fn histories(told: Told) -> [History<Told>; 1] {
    [History { shard: shard(), source: told }]
}

async fn published(database: &Database) -> Vec<Event> {
    database.published(&shard(), Cursor::START, 10_000).await.unwrap()
}

#[track_caller]
fn first(verification: &Verification) -> String {
    verification.first().expect("a difference").to_string()
}

/// A charged account of 100 entries in the tables.
async fn hundred_entries() -> (Books, TestDatabase, Database) {
    let mut books = Books::with("acme");
    books.accept("acme", Operation::Grant(grant(1_000)));
    while books.told().0.len() < 100 {
        books.accept("acme", charge(3));
    }
    let (database, read_model) = TestDatabase::migrated().await;
    project(&read_model, books.told()).await.unwrap();
    (books, database, read_model)
}

/// K064 (a): what is missing is named by its first entry, its count and its credits; building the tables
/// again mends them, as often as one likes.
#[tokio::test]
async fn k064_missing_entries_are_named_and_built_again() {
    let (books, database, read_model) = hundred_entries().await;
    let client = database.client().await;
    let events = published(&read_model).await;
    client.batch_execute("DELETE FROM entries WHERE sequence > 54").await.unwrap();
    let found = verify(&read_model, &histories(books.told())).await.unwrap();
    assert_eq!(first(&found), "entries acme/credits/55: missing (3 credits)");
    let entries = found.table("entries").unwrap();
    assert_eq!((entries.rows, entries.missing.rows, entries.missing.credits), (100, 46, 138));
    assert!(found.table("lots").unwrap().first.is_none());
    for _ in 0..2 {
        rebuild(&read_model, &histories(books.told())).await.unwrap();
        assert!(verify(&read_model, &histories(books.told())).await.unwrap().is_sound());
        check_agrees(&client, &books.ledger).await;
        // K064 (c): nothing is published again.
        assert_eq!(published(&read_model).await, events);
    }
}

/// K064 (b): the balance adds up either way, and only the lots tell whose credits are left.
#[tokio::test]
async fn k064_lots_are_compared_and_not_only_totals() {
    let mut books = Books::with("acme");
    let mut expiring = grant(10);
    expiring.expires_at = Some(at(100));
    books.accept("acme", Operation::Grant(expiring));
    books.accept("acme", Operation::Grant(grant(10)));
    let first_hold = books.accept("acme", authorize(10, 600));
    let second_hold = books.accept("acme", authorize(5, 600));
    books.accept("acme", release(first_hold));
    books.accept("acme", capture(second_hold, 5, true));
    let (database, read_model) = TestDatabase::migrated().await;
    project(&read_model, books.told()).await.unwrap();
    let client = database.client().await;
    check_agrees(&client, &books.ledger).await;
    // As a replay hold by hold would have it: paid from the lot that expires.
    let swap = "UPDATE lots SET (free, used) = (CASE WHEN expires_at IS NULL THEN 10 ELSE 5 END,
             CASE WHEN expires_at IS NULL THEN 0 ELSE 5 END)";
    client.batch_execute(swap).await.unwrap();
    let found = verify(&read_model, &histories(books.told())).await.unwrap();
    assert!(found.table("balances").unwrap().first.is_none(), "the totals are the same");
    let lots = found.table("lots").unwrap();
    assert_eq!((lots.altered.rows, lots.altered.credits), (2, 20));
    assert!(first(&found).contains("free is 5, expected 10, used is 5, expected 0"));
    rebuild(&read_model, &histories(books.told())).await.unwrap();
    books.now = at(100);
    books.sweep();
    project(&read_model, books.told()).await.unwrap();
    check_agrees(&client, &books.ledger).await;
    let query = "SELECT available, used, expired FROM balances";
    let row = client.query_one(query, &[]).await.unwrap();
    assert_eq!([0, 1, 2].map(|column| row.get::<_, i64>(column)), [5, 5, 10]);
}

/// A row removed, a row altered, a row doubled: each is named, with its amounts, and mended without
/// publishing anything.
#[tokio::test]
async fn a_row_removed_altered_or_doubled_is_named_and_mended() {
    let (books, database, read_model) = hundred_entries().await;
    let client = database.client().await;
    let events = published(&read_model).await;
    let cases = [
        ("DELETE FROM holds WHERE number = 7", "holds acme/credits/0/7: missing (3 credits)"),
        (
            "UPDATE entries SET moved = 4, kind = 'grant' WHERE sequence = 9",
            "entries acme/credits/9: kind is grant, expected charge, moved is 4, expected 3 \
             (1 credits)",
        ),
        (
            "UPDATE balances SET available = available + 2, used = used - 2",
            "balances acme/credits: available is 708, expected 706, used is 292, expected 294 \
             (4 credits)",
        ),
        (
            "ALTER TABLE entries DROP CONSTRAINT entries_are_numbered_once;
             INSERT INTO entries SELECT * FROM entries WHERE sequence = 20",
            "entries acme/credits/20: doubled (3 credits)",
        ),
        (
            "INSERT INTO allocated VALUES ('acme', 'credits', 'us', 5)",
            "allocated acme/credits/us: accounted for by no entry (5 credits)",
        ),
        ("DELETE FROM keys", "keys acme/credits/home/key 1: missing (0 credits)"),
    ];
    for (harm, expected) in cases {
        client.batch_execute(harm).await.unwrap();
        let found = verify(&read_model, &histories(books.told())).await.unwrap();
        assert_eq!(first(&found), expected, "after {harm}");
        rebuild(&read_model, &histories(books.told())).await.unwrap();
        check_agrees(&client, &books.ledger).await;
    }
    assert_eq!(published(&read_model).await, events);
    assert!(verify(&read_model, &histories(books.told())).await.unwrap().is_sound());
}

/// Verifying and rebuilding go on beside a projector and its reader; nothing is lost and nothing is
/// published twice.
#[tokio::test]
async fn tables_are_compared_and_built_again_while_they_are_projected() {
    let books = random::books(31, 500);
    let told = books.told();
    let (database, read_model) = TestDatabase::migrated().await;
    project(&read_model, told.first(told.0.len() / 3)).await.unwrap();
    let projecting = projector(&read_model, told.clone(), 2);
    let other = database.read_model();
    let histories = histories(told.clone());
    let maintaining = async {
        for _ in 0..3 {
            assert!(verify(&other, &histories).await.unwrap().is_sound());
            rebuild(&other, &histories).await.unwrap();
        }
    };
    let (projected, ()) = tokio::join!(projecting.catch_up(), maintaining);
    projected.unwrap();
    check_agrees(&database.client().await, &books.ledger).await;
    assert!(verify(&read_model, &histories).await.unwrap().is_sound());
    let positions: Vec<Cursor> =
        published(&read_model).await.iter().map(|event| event.position).collect();
    assert_eq!(positions, told.0.iter().map(|item| item.cursor).collect::<Vec<_>>());
}

/// Tells its pages when it may.
struct Gated {
    told: Told,
    asked: Notify,
    may_tell: Semaphore,
}

impl Source for Gated {
    async fn page(&self, from: Cursor, max: usize) -> Result<Page, SourceError> {
        self.asked.notify_one();
        let _may_tell = self.may_tell.acquire().await.unwrap();
        self.told.page(from, max).await
    }

    fn residences(&self, accounts: &[AccountName]) -> Vec<Residence> {
        self.told.residences(accounts)
    }
}

/// Tables that take the place of others are empty to whoever began to look before: so a rebuild waits for a
/// verification before it exchanges them.
#[tokio::test]
async fn tables_are_not_exchanged_under_a_verification() {
    let (books, database, read_model) = hundred_entries().await;
    let (asked, may_tell) = (Notify::new(), Semaphore::new(0));
    let source = Gated { told: books.told(), asked, may_tell };
    let gated = [History { shard: shard(), source }];
    let other = database.read_model();
    let rebuilding = async {
        let source = &gated[0].source;
        source.asked.notified().await;
        let (client, told) = (database.client().await, histories(books.told()));
        let mut rebuilding = std::pin::pin!(rebuild(&other, &told));
        let waiting = "SELECT count(*) FROM pg_locks JOIN pg_database ON database = pg_database.oid
             WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()";
        loop {
            tokio::select! {
                biased;
                rebuilt = &mut rebuilding => {
                    source.may_tell.add_permits(1);
                    return rebuilt;
                }
                row = client.query_one(waiting, &[]) => {
                    if row.unwrap().get::<_, i64>(0) > 0 {
                        break;
                    }
                }
            }
        }
        source.may_tell.add_permits(1);
        rebuilding.await
    };
    let (verified, rebuilt) = tokio::join!(verify(&read_model, &gated), rebuilding);
    rebuilt.unwrap();
    assert!(verified.as_ref().unwrap().is_sound(), "{}", first(&verified.unwrap()));
    check_agrees(&database.client().await, &books.ledger).await;
}

/// The tables of a shard whose history is not at hand would be lost: that is refused.
#[tokio::test]
async fn a_rebuild_needs_every_history_that_was_projected() {
    let (books, database, read_model) = hundred_entries().await;
    let none: [History<Told>; 0] = [];
    let refused = rebuild(&read_model, &none).await.unwrap_err();
    assert!(matches!(refused, ProjectError::NoHistory { .. }), "{refused}");
    let short = rebuild(&read_model, &histories(books.told().first(50))).await.unwrap_err();
    assert!(matches!(short, ProjectError::HistoryTooShort { .. }), "{short}");
    check_agrees(&database.client().await, &books.ledger).await;
}

/// Another region may keep its homes in the same tables: whoever has one region's histories compares and
/// builds again what is of that region, and leaves the other's alone.
#[tokio::test]
async fn a_region_compares_and_mends_its_own_rows_beside_anothers() {
    let (books, database, read_model) = hundred_entries().await;
    let client = database.client().await;
    let mut theirs = Books::default();
    theirs.ask(
        "bolt",
        Operation::Open(Open {
            home: Region::parse("us").unwrap(),
            policy: Policy::default(),
            epoch: None,
        }),
        None,
    );
    theirs.accept("bolt", Operation::Grant(grant(70)));
    let there = Shard::parse("us/0").unwrap();
    let settings = ProjectorSettings::default();
    let projector = Projector::new(read_model.clone(), there, theirs.told(), settings);
    projector.catch_up().await.unwrap();
    let events = published(&read_model).await;
    assert!(verify(&read_model, &histories(books.told())).await.unwrap().is_sound());
    let harm = "UPDATE lots SET free = free - 1, used = used + 1;
                DELETE FROM entries WHERE tenant = 'acme' AND sequence = 7";
    client.batch_execute(harm).await.unwrap();
    let found = verify(&read_model, &histories(books.told())).await.unwrap();
    assert_eq!(first(&found), "entries acme/credits/7: missing (3 credits)");
    assert_eq!(found.table("lots").unwrap().altered.rows, 1, "theirs is not looked at");
    rebuild(&read_model, &histories(books.told())).await.unwrap();
    assert!(verify(&read_model, &histories(books.told())).await.unwrap().is_sound());
    let query = "SELECT free FROM lots WHERE tenant = 'bolt'";
    let row = client.query_one(query, &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 69, "theirs is left alone");
    assert_eq!(published(&read_model).await, events);
}
