//! Whatever fails between a projector and its database: each entry is in the tables once.

use purser_ledger::{Operation, Policy};
use purser_postgres::{Cursor, Database};
use purser_types::Span;
use tokio_postgres::Client;

use crate::support::agreement::check_agrees;
use crate::support::books::{Books, at, authorize, capture, charge, credits, grant, usage};
use crate::support::proxy::Proxy;
use crate::support::server::TestDatabase;
use crate::support::{project, projector, random, shard};

/// The read model through a proxy.
fn through(proxy: &Proxy) -> Database {
    Database::at(&proxy.address(), Database::SCHEMA_DEFAULT, 2).unwrap()
}

/// A trigger that fails the first writes of balances as the database itself would.
const FAILING: &str = "
    CREATE SEQUENCE failures;
    CREATE FUNCTION fail_at_first() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        CASE nextval('failures')
            WHEN 1 THEN RAISE EXCEPTION 'deadlock detected' USING ERRCODE = '40P01';
            WHEN 2 THEN RAISE EXCEPTION 'no serial order' USING ERRCODE = '40001';
            ELSE RETURN NULL;
        END CASE;
    END $$;
    CREATE TRIGGER fail_at_first AFTER INSERT ON balances
        EXECUTE FUNCTION fail_at_first();";

/// K045: both captures stand, and each is there once.
#[tokio::test]
async fn k045_a_deadlock_is_a_reason_to_retry() {
    let mut books = Books::with("acme");
    books.accept("acme", Operation::Grant(grant(50)));
    books.accept("acme", Operation::Grant(grant(50)));
    let first = books.accept("acme", authorize(30, 60));
    let second = books.accept("acme", authorize(30, 60));
    let (database, read_model) = TestDatabase::migrated().await;
    project(&read_model, books.told()).await.unwrap();
    let client = database.client().await;
    client.batch_execute(FAILING).await.unwrap();
    books.accept("acme", capture(first, 30, true));
    books.accept("acme", capture(second, 30, true));
    project(&read_model, books.told()).await.unwrap();
    check_agrees(&client, &books.ledger).await;
    let query = "SELECT available, used, held,
             (SELECT count(*) FROM entries WHERE kind = 'capture'),
             (SELECT last_value FROM failures)
         FROM balances";
    let row = client.query_one(query, &[]).await.unwrap();
    let found = [0, 1, 2, 3, 4].map(|column| row.get::<_, i64>(column));
    assert_eq!(found, [40, 60, 0, 2, 3], "available, used, held, captures, attempts");
}

/// Waits until somebody waits for a lock.
async fn wait_for_blocked(client: &Client) {
    let query = "SELECT FROM pg_stat_activity
         WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while client.query(query, &[]).await.unwrap().is_empty() {}
}

/// K061: what is read of the outbox has no hole that is filled later, and waits for none that never is.
#[tokio::test]
async fn k061_a_reader_of_the_outbox_overtakes_no_slower_transaction() {
    let mut books = Books::with("acme");
    books.accept("acme", Operation::Grant(grant(10)));
    let (database, read_model) = TestDatabase::migrated().await;
    project(&read_model, books.told()).await.unwrap();
    let read_to = read_model.published(&shard(), Cursor::START, 100).await.unwrap();
    let read_to = read_to.last().unwrap().next();
    let before = books.told().0.len();
    books.accept("acme", Operation::Grant(grant(10)));
    let middle = books.told();
    books.accept("acme", charge(4));
    let proxy = Proxy::before(&database.address);
    let through_proxy = through(&proxy);
    proxy.hold_commits();
    // The first transaction has written all it has to, and its commit is on its way.
    let slow = projector(&through_proxy, middle.clone(), 100);
    // The second one has more to write, and finds the cursor locked.
    let fast = projector(&read_model, books.told(), 100);
    let client = database.client().await;
    let racing = async {
        proxy.wait_for_held().await;
        let reading = async {
            wait_for_blocked(&client).await;
            let early = read_model.published(&shard(), read_to, 100).await.unwrap();
            assert_eq!(early, [], "nothing is decided yet");
            proxy.let_commit();
        };
        tokio::join!(fast.catch_up(), reading).0
    };
    let (slow, fast) = tokio::join!(slow.catch_up(), racing);
    assert_eq!((slow.unwrap().entries, fast.unwrap().entries), (1, 1));
    let events = read_model.published(&shard(), read_to, 100).await.unwrap();
    let told: Vec<_> = books.told().0[before..].iter().map(|item| item.cursor).collect();
    assert_eq!(events.iter().map(|event| event.position).collect::<Vec<_>>(), told);
    check_agrees(&client, &books.ledger).await;
    // A transaction that is rolled back leaves no hole to wait for.
    books.accept("acme", charge(1));
    proxy.cut_after(12);
    projector(&through_proxy, books.told(), 100).catch_up().await.unwrap();
    let more = read_model.published(&shard(), events.last().unwrap().next(), 100).await.unwrap();
    assert_eq!(more.len(), books.told().0.len() - before - events.len());
}

/// K063 (a): wherever the connection is lost, between write and checkpoint as well, nothing is applied
/// twice and nothing is left out.
#[tokio::test]
async fn k063_a_projector_that_dies_anywhere_applies_each_entry_once() {
    let books = random::books(21, 60);
    let mut messages = 0;
    loop {
        let (database, read_model) = TestDatabase::migrated().await;
        drop(read_model);
        let proxy = Proxy::before(&database.address);
        proxy.cut_after(messages);
        projector(&through(&proxy), books.told(), 40).catch_up().await.unwrap();
        check_agrees(&database.client().await, &books.ledger).await;
        if proxy.cuts() == 0 {
            break;
        }
        // A page takes some sixty messages the first time: a few of them each round is enough.
        messages += 5;
    }
    assert!(messages > 50, "it was cut in many places: {messages}");
}

/// K063 (a): the commit was done and nobody heard of it.
#[tokio::test]
async fn k063_a_commit_whose_answer_is_lost_is_found_done() {
    let books = random::books(22, 200);
    let (database, _read_model) = TestDatabase::migrated().await;
    let proxy = Proxy::before(&database.address);
    proxy.lose_commit();
    let through_proxy = through(&proxy);
    let projector = projector(&through_proxy, books.told(), 1_000);
    let progress = projector.catch_up().await.unwrap();
    assert_eq!((proxy.cuts(), progress.entries), (1, 0), "it was all written by the lost attempt");
    check_agrees(&database.client().await, &books.ledger).await;
}

/// K063 (b) and (c): an old and a new instance at once, on one running balance.
#[tokio::test]
async fn k063_two_projectors_at_once_apply_each_entry_once() {
    let books = random::books(23, 500);
    let (database, read_model) = TestDatabase::migrated().await;
    let other = database.read_model();
    let (old, new) = (projector(&read_model, books.told(), 3), projector(&other, books.told(), 5));
    let (old, new) = tokio::join!(old.catch_up(), new.catch_up());
    let written = old.unwrap().entries + new.unwrap().entries;
    assert_eq!(written, u64::try_from(books.told().0.len()).unwrap());
    check_agrees(&database.client().await, &books.ledger).await;
}

/// A database that is away delays the tables and nothing else.
#[tokio::test]
async fn a_database_that_is_away_is_waited_for() {
    let mut books = Books::with("acme");
    books.accept("acme", Operation::Grant(grant(100)));
    let (database, _read_model) = TestDatabase::migrated().await;
    let proxy = Proxy::before(&database.address);
    proxy.refuse(20);
    let through_proxy = through(&proxy);
    let projector = projector(&through_proxy, books.told(), 100);
    let mut progress = projector.progress();
    let failing = async {
        let failing = progress.wait_for(|progress| progress.failing.is_some()).await.unwrap();
        failing.failing.clone().unwrap().1
    };
    let (caught_up, failing) = tokio::join!(projector.catch_up(), failing);
    assert_eq!((caught_up.unwrap().failing, proxy.cuts()), (None, 20));
    assert!(failing.contains("cannot be reached"), "{failing}");
    check_agrees(&database.client().await, &books.ledger).await;
}

/// A violation stops the projector by name, writes nothing of the page, and loses nothing.
#[tokio::test]
async fn a_row_that_breaks_a_rule_stops_the_projector_and_nothing_is_lost() {
    let mut books = Books::with("acme");
    books.accept("acme", Operation::Grant(grant(100)));
    let (database, read_model) = TestDatabase::migrated().await;
    project(&read_model, books.told()).await.unwrap();
    let client = database.client().await;
    let stray = "INSERT INTO keys (tenant, unit, owner, key, entry_sequence, ends_at, shard)
         VALUES ('acme', 'credits', 'home', 'twice', 1, '9999-01-01', 'eu/0')";
    client.batch_execute(stray).await.unwrap();
    books.ask("acme", charge(30), Some("twice")).result.unwrap();
    let stopped = project(&read_model, books.told()).await.unwrap_err();
    let told = stopped.to_string();
    assert!(!stopped.is_transient() && told.contains("keys_decide_once"), "{told}");
    assert!(told.contains("acme") && told.contains("twice"), "{told}");
    let available = "SELECT available FROM balances";
    let row = client.query_one(available, &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 100, "nothing of the page is written");
    client.batch_execute("DELETE FROM keys WHERE key = 'twice'").await.unwrap();
    project(&read_model, books.told()).await.unwrap();
    check_agrees(&client, &books.ledger).await;
    assert_eq!(books.account("acme").balance().available, credits(70));
}

/// The ledger takes an event once. Had it taken one twice, the table would say so.
#[tokio::test]
async fn an_event_that_counts_twice_stops_the_projector() {
    let mut books = Books::with("acme");
    books.accept("acme", Operation::Grant(grant(100)));
    books.ask("acme", usage("e1", 30, 0), None).result.unwrap();
    let (database, read_model) = TestDatabase::migrated().await;
    project(&read_model, books.told()).await.unwrap();
    let client = database.client().await;
    let remembered = "SELECT id, ends_at::TEXT FROM events";
    let row = client.query_one(remembered, &[]).await.unwrap();
    let found = (row.get::<_, &str>(0), row.get::<_, &str>(1));
    assert_eq!(found, ("e1", "1970-01-04 00:00:00+00"), "72 hours after its time");
    let stray = "INSERT INTO events VALUES
         ('acme', 'credits', 'meter', 'e2', 1, '9999-01-01', 'eu/0')";
    client.batch_execute(stray).await.unwrap();
    books.ask("acme", usage("e2", 5, 0), None).result.unwrap();
    let told = project(&read_model, books.told()).await.unwrap_err().to_string();
    assert!(told.contains("events_count_once") && told.contains("e2"), "{told}");
    client.batch_execute("DELETE FROM events WHERE id = 'e2'").await.unwrap();
    project(&read_model, books.told()).await.unwrap();
    check_agrees(&client, &books.ledger).await;
}

/// An event that is forgotten may come again under its name, at the very instant; the tables have one row.
#[tokio::test]
async fn an_event_is_free_again_at_the_instant_at_which_it_is_forgotten() {
    let policy = Policy { event_age: Some(Span::from_secs(60)), ..Policy::default() };
    let mut books = Books::default();
    books.open("acme", policy);
    books.accept("acme", Operation::Grant(grant(100)));
    for seconds in [0, 60, 120] {
        books.now = at(seconds);
        books.ask("acme", usage("again", 10, seconds), None).result.unwrap();
    }
    assert_eq!(books.account("acme").balance().available, credits(70));
    for page in [1, 100] {
        let (database, read_model) = TestDatabase::migrated().await;
        projector(&read_model, books.told(), page).catch_up().await.unwrap();
        let row = database.client().await.query_one("SELECT ends_at::TEXT FROM events", &[]).await;
        assert_eq!(row.unwrap().get::<_, &str>(0), "1970-01-01 00:03:00+00");
    }
}
