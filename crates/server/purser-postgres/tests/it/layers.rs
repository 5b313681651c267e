//! The rules of the tables, each on its own: the last line, should everything before it fail.

use purser_ledger::Operation;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::support::books::{Books, grant};
use crate::support::project;
use crate::support::server::TestDatabase;

/// The constraint by which a statement is refused.
async fn refusal(client: &Client, statement: &str) -> String {
    let error = client.batch_execute(statement).await.expect_err(statement);
    let error = error.as_db_error().expect("the database refuses");
    let codes = [&SqlState::UNIQUE_VIOLATION, &SqlState::CHECK_VIOLATION];
    assert!(codes.contains(&error.code()), "{error}");
    error.constraint().unwrap().to_owned()
}

#[tokio::test]
async fn every_table_refuses_what_would_count_twice_or_fall_below_zero() {
    let mut books = Books::with("acme");
    let mut paid = grant(100);
    paid.source_ref = Some("payment 1".into());
    books.ask("acme", Operation::Grant(paid), Some("k1")).result.unwrap();
    let (database, read_model) = TestDatabase::migrated().await;
    project(&read_model, books.told()).await.unwrap();
    let client = database.client().await;
    let event =
        "INSERT INTO events VALUES ('acme', 'credits', 'meter', 'e1', 1, '2030-01-01', 'eu/0')";
    client.batch_execute(event).await.unwrap();
    let again = |table: &str, condition: &str| {
        format!("INSERT INTO {table} SELECT * FROM {table} WHERE {condition}")
    };
    let cases = [
        (again("entries", "sequence = 1"), "entries_are_numbered_once"),
        (again("keys", "key = 'k1'"), "keys_decide_once"),
        (again("events", "id = 'e1'"), "events_count_once"),
        (
            "INSERT INTO lots SELECT tenant, unit, number + 100, amount, category, priority,
                 effective_at, expires_at, source_ref, phase, waiting, free, held, used, expired,
                 voided, allocated, entry_sequence FROM lots"
                .to_owned(),
            "lots_have_one_source",
        ),
        (
            "INSERT INTO outbox SELECT shard, position + 100, tenant, unit, epoch, sequence,
                 ordinal, kind, log_time FROM outbox"
                .to_owned(),
            "outbox_publishes_once",
        ),
        ("UPDATE lots SET free = free - 1".to_owned(), "lots_add_up"),
        ("UPDATE balances SET used = used + 1".to_owned(), "balances_add_up"),
        ("UPDATE lots SET free = -1, used = 101".to_owned(), "lots_free_check"),
        ("UPDATE projectors SET position = -1".to_owned(), "projectors_position_check"),
    ];
    for (statement, constraint) in cases {
        assert_eq!(refusal(&client, &statement).await, constraint, "{statement}");
    }
    for bucket in ["available", "held", "used", "expired", "voided", "debt", "pending", "granted"] {
        let statement = format!("UPDATE balances SET {bucket} = -1");
        let constraint = refusal(&client, &statement).await;
        // Which of two broken rules is named first is the database's choice.
        let either = [format!("balances_{bucket}_check"), "balances_add_up".to_owned()];
        assert!(either.contains(&constraint), "{bucket}: {constraint}");
    }
}

#[tokio::test]
async fn migrations_may_be_asked_for_by_several_nodes_at_once_and_again() {
    let database = TestDatabase::empty().await;
    let (one, two) = (database.read_model(), database.read_model());
    let (first, second) = tokio::join!(one.migrate(), two.migrate());
    assert!(first.is_ok() && second.is_ok(), "{first:?}, {second:?}");
    one.migrate().await.unwrap();
    let query = "SELECT count(*), max(version)::BIGINT FROM refinery_schema_history";
    let row = database.client().await.query_one(query, &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), row.get::<_, i64>(1), "each of them once, from the first on");
}
