//! Effectively once, by layers that each stand alone: one of them is taken away, and the next one catches
//! what comes through. What the ledger's own layers catch is tested in `purser-ledger`.

use std::collections::BTreeSet;

use purser_ledger::{
    Bucket, Entry, Event, EventAbout, EventName, Fact, Operation, Policy, codec, hash_of,
};
use purser_postgres::{
    Cursor, Database, History, ProjectError, Published, Verification, rebuild, verify,
};
use purser_types::IdempotencyKey;
use tokio_postgres::Client;

use crate::support::agreement::check_agrees;
use crate::support::books::{Books, Told, account, charge, credits, grant};
use crate::support::server::TestDatabase;
use crate::support::{project, shard};

/// Every rule by which a table refuses what is there already.
const WITHOUT_RULES: &str = "
    ALTER TABLE entries DROP CONSTRAINT IF EXISTS entries_are_numbered_once;
    ALTER TABLE keys DROP CONSTRAINT IF EXISTS keys_decide_once;
    ALTER TABLE events DROP CONSTRAINT IF EXISTS events_count_once;
    ALTER TABLE lots DROP CONSTRAINT IF EXISTS lots_have_one_source;
    ALTER TABLE outbox DROP CONSTRAINT IF EXISTS outbox_publishes_once;
    ALTER TABLE outbox DROP CONSTRAINT IF EXISTS outbox_pkey";

fn usage(id: &str, amount: u64) -> Operation {
    let name = EventName::parse("meter", id).unwrap();
    let about = EventAbout::Usage { amount: credits(amount) };
    Operation::RecordEvent(Box::new(Event { name, kind: "used".into(), time: None, about }))
}

/// An account that was charged by a call under a key, and by an event.
fn used() -> Books {
    let mut books = Books::with("acme");
    books.accept("acme", Operation::Grant(grant(100)));
    books.ask("acme", charge(5), Some("k1")).result.unwrap();
    books.accept("acme", usage("e1", 7));
    books
}

/// The history of a ledger that has let its last entry through: `harm` makes it what it should not be.
fn let_through(books: &Books, harm: impl FnOnce(&mut Entry)) -> Told {
    let mut told = books.told();
    let last = &mut told.0.last_mut().unwrap().entry;
    harm(&mut last.entry);
    last.hash = hash_of(&codec::encode(&last.entry));
    told
}

/// Projects all but the last entry, and then that: it is refused by a rule, and none of it is written.
async fn check_refused(told: Told, rule: &str) {
    let (database, read_model) = TestDatabase::migrated().await;
    project(&read_model, told.first(told.0.len() - 1)).await.unwrap();
    let before = used_by_tables(&database.client().await).await;
    let refused = project(&read_model, told).await.unwrap_err();
    assert!(!refused.is_transient(), "{refused}");
    assert!(refused.to_string().contains(rule), "{refused}");
    assert_eq!(used_by_tables(&database.client().await).await, before);
}

async fn used_by_tables(client: &Client) -> i64 {
    client.query_one("SELECT used FROM balances WHERE tenant = 'acme'", &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn without_the_key_check_the_table_of_keys_refuses_a_second_entry_under_a_key() {
    let mut books = used();
    books.ask("acme", charge(5), Some("k2")).result.unwrap();
    let told = let_through(&books, |entry| entry.key = Some(IdempotencyKey::parse("k1").unwrap()));
    check_refused(told, "keys_decide_once").await;
}

#[tokio::test]
async fn without_the_dedupe_of_events_the_table_of_events_refuses_a_second_entry_for_one() {
    let mut books = used();
    books.accept("acme", usage("e2", 7));
    let told = let_through(&books, |entry| {
        let Fact::EventApplied(change) = &mut entry.fact else { panic!("an event was applied") };
        change.event.name = EventName::parse("meter", "e1").unwrap();
    });
    check_refused(told, "events_count_once").await;
}

/// Two layers at once: a ledger that lets a repetition through, and tables without rules. What is left is
/// the comparison with a history that is right.
#[tokio::test]
async fn without_the_tables_rules_verification_names_what_counted_twice_and_a_rebuild_mends_it() {
    let (mut books, mut right) = (used(), used());
    // What was right to do instead is as long, so that both histories end at the same place.
    right.open("other", Policy::default());
    let right = right.told();
    books.ask("acme", charge(5), Some("k2")).result.unwrap();
    let wrong = let_through(&books, |entry| entry.key = Some(IdempotencyKey::parse("k1").unwrap()));
    let (database, read_model) = TestDatabase::migrated().await;
    let client = database.client().await;
    client.batch_execute(WITHOUT_RULES).await.unwrap();
    project(&read_model, wrong).await.unwrap();
    assert_eq!(used_by_tables(&client).await, 17, "it counted twice");
    let found = compared(&read_model, right.clone()).await;
    assert_eq!(
        found.first().unwrap().to_string(),
        "entries acme/credits/5: accounted for by no entry (5 credits)"
    );
    rebuild(&read_model, &histories(right.clone())).await.unwrap();
    assert_eq!(used_by_tables(&client).await, 12);
    assert!(compared(&read_model, right).await.is_sound());
}

/// Rows that somebody doubles are named, whichever rule would have refused them.
#[tokio::test]
async fn without_the_tables_rules_verification_names_rows_that_are_doubled() {
    let books = used();
    let (database, read_model) = TestDatabase::migrated().await;
    project(&read_model, books.told()).await.unwrap();
    let client = database.client().await;
    for (table, named) in [
        ("entries WHERE sequence = 3", "entries acme/credits/3: doubled (5 credits)"),
        ("keys WHERE key = 'k1'", "keys acme/credits/home/k1: doubled (0 credits)"),
        ("events", "events acme/credits/meter/e1: doubled (0 credits)"),
    ] {
        // A rebuild has brought the rules back.
        client.batch_execute(WITHOUT_RULES).await.unwrap();
        let name = table.split(' ').next().unwrap();
        let double = format!("INSERT INTO {name} SELECT * FROM {table}");
        client.batch_execute(&double).await.unwrap();
        let found = compared(&read_model, books.told()).await;
        assert_eq!(found.first().unwrap().to_string(), named);
        rebuild(&read_model, &histories(books.told())).await.unwrap();
        check_agrees(&client, &books.ledger).await;
    }
}

/// The projector's cursor is set back: it reads all of the history again.
#[tokio::test]
async fn without_the_projectors_cursor_what_is_in_the_tables_is_known_by_its_hash() {
    for rules in ["", WITHOUT_RULES] {
        let mut books = used();
        let (database, read_model) = TestDatabase::migrated().await;
        let client = database.client().await;
        client.batch_execute(rules).await.unwrap();
        project(&read_model, books.told()).await.unwrap();
        let published = published(&read_model).await;
        client.batch_execute("DELETE FROM projectors").await.unwrap();
        books.accept("acme", usage("e2", 3));
        project(&read_model, books.told()).await.unwrap();
        check_agrees(&client, &books.ledger).await;
        let now = self::published(&read_model).await;
        assert_eq!(now[..published.len()], published[..], "nothing is published again");
        assert_eq!(now.len(), published.len() + 1);
        assert!(compared(&read_model, books.told()).await.is_sound());
    }
}

/// A reader's cursor is set back: it is told the same again, and drops what it knows by its id.
#[tokio::test]
async fn without_its_cursor_a_reader_of_the_outbox_knows_what_it_has_by_its_id() {
    let mut books = used();
    let (_database, read_model) = TestDatabase::migrated().await;
    let (mut known, mut used, mut dropped) = (BTreeSet::new(), 0, 0);
    for round in 0..3 {
        project(&read_model, books.told()).await.unwrap();
        // Each round begins at the beginning.
        for event in read_model.published(&shard(), Cursor::START, 1_000).await.unwrap() {
            let (found, ordinal) = (&event.entry, event.ordinal);
            let sequence = found.entry.entry.sequence;
            if known.insert((found.account.clone(), found.epoch, sequence, ordinal)) {
                used += used_by(&found.entry.entry);
            } else {
                dropped += 1;
            }
        }
        books.accept("acme", usage(&format!("round {round}"), 2));
    }
    assert_eq!((used, dropped), (16, 4 + 5));
    assert_eq!(books.account("acme").balance().used, credits(18), "the last is not projected");
}

/// A gap is no reason to go on: whoever has lost entries finds that there are some before.
#[tokio::test]
async fn a_cursor_that_is_set_forward_is_found_by_the_hole_that_it_leaves() {
    let mut books = used();
    let (database, read_model) = TestDatabase::migrated().await;
    project(&read_model, books.told()).await.unwrap();
    books.accept("acme", usage("e2", 3));
    books.accept("acme", usage("e3", 3));
    let last = books.told().0.last().unwrap().cursor.0;
    let forward = format!("UPDATE projectors SET position = {last}");
    database.client().await.batch_execute(&forward).await.unwrap();
    let stopped = project(&read_model, books.told()).await.unwrap_err();
    assert!(matches!(stopped, ProjectError::Gap { .. }), "{stopped}");
}

/// What the outbox has already is passed over if it is the same event, and only then.
#[tokio::test]
async fn an_event_whose_place_in_the_outbox_another_one_has_is_not_passed_over() {
    let mut books = used();
    let (database, read_model) = TestDatabase::migrated().await;
    project(&read_model, books.told()).await.unwrap();
    books.accept("acme", usage("e2", 3));
    let last = books.told().0.last().unwrap().cursor.0;
    let taken = format!("UPDATE outbox SET position = {last} WHERE sequence = 1");
    database.client().await.batch_execute(&taken).await.unwrap();
    let stopped = project(&read_model, books.told()).await.unwrap_err();
    assert!(stopped.to_string().contains("outbox_pkey"), "{stopped}");
}

fn used_by(entry: &Entry) -> u64 {
    let moves = entry.moves.iter().filter(|step| step.to == Bucket::Used);
    moves.map(|step| step.amount.get()).sum()
}

fn histories(told: Told) -> [History<Told>; 1] {
    [History { shard: shard(), source: told }]
}

async fn compared(read_model: &Database, told: Told) -> Verification {
    verify(read_model, &histories(told)).await.unwrap()
}

async fn published(read_model: &Database) -> Vec<Published> {
    read_model.published_of(&account("acme")).await.unwrap()
}
