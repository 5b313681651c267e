//! What is projected is what the ledger has, to the last credit and microsecond.

use purser_ledger::{Operation, Policy, Target};
use purser_postgres::{ProjectError, Projector, ProjectorSettings, Shard};
use purser_sim::story::{self, Plan};
use purser_types::{LogTime, Position, Span};

use crate::support::agreement::check_agrees;
use crate::support::books::{Books, Told, at, authorize, capture, charge, credits, grant, refund};
use crate::support::server::TestDatabase;
use crate::support::{project, projector, random};

#[tokio::test]
async fn random_commands_are_in_the_tables_lot_by_lot() {
    for (seed, page) in [(1, 1), (2, 7), (3, 1_000), (4, 64)] {
        let books = random::books(seed, 600);
        let (database, read_model) = TestDatabase::migrated().await;
        projector(&read_model, books.told(), page).catch_up().await.unwrap();
        check_agrees(&database.client().await, &books.ledger).await;
    }
}

/// Regions' entries, covers, take-backs, moves and lost homes, as the simulation makes them up.
#[tokio::test]
async fn accounts_with_regions_and_several_homes_are_in_the_tables_lot_by_lot() {
    for (seed, plan) in [(11, Plan::WILD), (12, Plan::WILD), (13, Plan::MOVING), (14, Plan::LOSING)]
    {
        let world = story::world_after(seed, &plan).unwrap();
        let ledger = world.home.ledger();
        let records = (0..).map(Position).zip(world.home.history().records());
        let (database, read_model) = TestDatabase::migrated().await;
        projector(&read_model, Told::of(ledger, records), 50).catch_up().await.unwrap();
        check_agrees(&database.client().await, ledger).await;
    }
}

/// K065: one resolution everywhere. What has expired in the ledger has expired in the tables, at the
/// microsecond.
#[tokio::test]
async fn k065_an_expiry_is_the_same_microsecond_in_the_tables() {
    let expires_at = LogTime::from_unix_micros(1_000_000_001).unwrap();
    let mut books = Books::with("acme");
    let mut expiring = grant(10);
    expiring.expires_at = Some(expires_at);
    books.accept("acme", Operation::Grant(expiring));
    let (database, read_model) = TestDatabase::migrated().await;
    project(&read_model, books.told()).await.unwrap();
    let client = database.client().await;
    let usable = "SELECT count(*) FROM lots WHERE effective_at <= $1::TEXT::TIMESTAMPTZ
         AND $1::TEXT::TIMESTAMPTZ < expires_at";
    for (instant, lots) in [("00:16:40.000000", 1), ("00:16:40.000001", 0)] {
        let instant = format!("1970-01-01 {instant}Z");
        let row = client.query_one(usable, &[&instant]).await.unwrap();
        assert_eq!(row.get::<_, i64>(0), lots, "{instant}");
    }
    books.now = expires_at;
    books.sweep();
    project(&read_model, books.told()).await.unwrap();
    check_agrees(&client, &books.ledger).await;
    let row = client.query_one("SELECT max(log_time)::TEXT FROM entries", &[]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), "1970-01-01 00:16:40.000001+00");
}

/// The largest account there can be, and totals beyond what an amount can be.
#[tokio::test]
async fn amounts_are_exact_up_to_the_largest_and_beyond_it() {
    let most = 1_000_000_000_000_000_000;
    let mut books = Books::with("acme");
    for _ in 0..9 {
        books.accept("acme", Operation::Grant(grant(most)));
    }
    books.accept("acme", Operation::Grant(grant(9_007_199_254_740_993)));
    for _ in 0..12 {
        let charge = books.accept("acme", charge(most));
        let number = purser_ledger::HoldNumber(purser_types::Sequence(charge));
        books.accept("acme", refund(Target::Charge(number)));
    }
    let (database, read_model) = TestDatabase::migrated().await;
    project(&read_model, books.told()).await.unwrap();
    let client = database.client().await;
    check_agrees(&client, &books.ledger).await;
    let query = "SELECT available::TEXT, captured::TEXT, refunded::TEXT FROM balances";
    let row = client.query_one(query, &[]).await.unwrap();
    let texts = [0, 1, 2].map(|column| row.get::<_, String>(column));
    let beyond = "12000000000000000000".to_owned();
    assert_eq!(texts, ["9009007199254740993".to_owned(), beyond.clone(), beyond]);
}

/// The home before has projected a part of an account's entries; the new one's history has them all.
#[tokio::test]
async fn an_account_that_has_moved_is_projected_once_from_two_histories() {
    let books = random::books(5, 300);
    let all = books.told();
    let (database, read_model) = TestDatabase::migrated().await;
    project(&read_model, all.first(all.0.len() / 2)).await.unwrap();
    let here = Shard::parse("us/0").unwrap();
    let settings = ProjectorSettings::default();
    let there = Projector::new(read_model.clone(), here, all.clone(), settings);
    there.catch_up().await.unwrap();
    // What the home before comes to late is there already.
    project(&read_model, all).await.unwrap();
    check_agrees(&database.client().await, &books.ledger).await;
}

/// As when the tables are filled for the first time, and accounts have moved before.
#[tokio::test]
async fn an_account_in_two_histories_that_are_projected_at_once_is_there_once() {
    let books = random::books(6, 300);
    let (database, read_model) = TestDatabase::migrated().await;
    let settings = ProjectorSettings { page_entries_max: 3, ..ProjectorSettings::default() };
    let there = Shard::parse("us/0").unwrap();
    let there = Projector::new(database.read_model(), there, books.told(), settings);
    let here = projector(&read_model, books.told(), 5);
    let (here, there) = tokio::join!(here.catch_up(), there.catch_up());
    let written = here.unwrap().entries + there.unwrap().entries;
    assert_eq!(written, u64::try_from(books.told().0.len()).unwrap());
    check_agrees(&database.client().await, &books.ledger).await;
}

/// A key that was forgotten decides anew, exactly from then on: in one page and in two.
#[tokio::test]
async fn a_key_is_free_again_at_the_instant_at_which_it_is_forgotten() {
    let policy = Policy { key_retention: Span::from_secs(60), ..Policy::default() };
    let mut books = Books::default();
    books.open("acme", policy);
    for seconds in [0, 60, 120] {
        books.now = at(seconds);
        let outcome = books.ask("acme", Operation::Grant(grant(5)), Some("again"));
        assert!(outcome.result.is_ok() && !outcome.replayed);
    }
    assert_eq!(books.account("acme").balance().available, credits(15));
    for page in [1, 100] {
        let (database, read_model) = TestDatabase::migrated().await;
        projector(&read_model, books.told(), page).catch_up().await.unwrap();
        let client = database.client().await;
        check_agrees(&client, &books.ledger).await;
        let row = client.query_one("SELECT ends_at::TEXT FROM keys", &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), "1970-01-01 00:03:00+00");
    }
}

/// A history that is not the one that was projected is noticed at the first entry that differs.
#[tokio::test]
async fn an_entry_that_does_not_continue_the_tables_stops_the_projector() {
    let mut books = Books::with("acme");
    books.accept("acme", Operation::Grant(grant(100)));
    let mut other = books.clone();
    let (database, read_model) = TestDatabase::migrated().await;
    project(&read_model, books.told()).await.unwrap();
    let hold = books.accept("acme", authorize(30, 60));
    other.accept("acme", authorize(31, 60));
    project(&read_model, books.told()).await.unwrap();
    books.accept("acme", capture(hold, 30, true));
    other.accept("acme", capture(hold, 31, true));
    let forked = project(&read_model, other.told()).await.unwrap_err();
    assert!(matches!(forked, ProjectError::Forked { .. }), "{forked}");
    let mut holed = books.told();
    holed.0.remove(0);
    let (_other, elsewhere) = TestDatabase::migrated().await;
    let gap = project(&elsewhere, holed).await.unwrap_err();
    assert!(matches!(gap, ProjectError::Gap { .. }), "{gap}");
    project(&read_model, books.told()).await.unwrap();
    check_agrees(&database.client().await, &books.ledger).await;
}
