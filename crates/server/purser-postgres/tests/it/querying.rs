//! What people ask of the tables.

use purser_ledger::Operation;
use purser_postgres::{Cursor, Moment, Period, Search};
use purser_types::Sequence;

use crate::support::books::{Books, account, at, authorize, capture, charge, credits, grant};
use crate::support::server::TestDatabase;
use crate::support::{project, shard};

/// Granted 100 at 0 s, held 40 at 10 s, captured 25 at 20 s, charged 5 at 30 s.
async fn told() -> (Books, u64, TestDatabase, purser_postgres::Database) {
    let mut books = Books::with("acme");
    books.open("other", purser_ledger::Policy::default());
    books.accept("acme", Operation::Grant(grant(100)));
    books.accept("other", Operation::Grant(grant(7)));
    books.now = at(10);
    let hold = books.accept("acme", authorize(40, 600));
    books.now = at(20);
    books.accept("acme", capture(hold, 25, true));
    books.now = at(30);
    books.ask("acme", charge(5), Some("the charge")).result.unwrap();
    let (database, read_model) = TestDatabase::migrated().await;
    project(&read_model, books.told()).await.unwrap();
    (books, hold, database, read_model)
}

#[tokio::test]
async fn a_balance_is_told_as_of_an_entry_or_an_instant() {
    let (books, hold, _database, read_model) = told().await;
    let acme = account("acme");
    let by_entry = Moment::Sequence(Sequence(hold));
    for (moment, available, held) in [
        (by_entry, 60, 40),
        (Moment::Time(at(10)), 60, 40),
        (Moment::Time(at(9)), 100, 0),
        (Moment::Time(at(20)), 75, 0),
        (Moment::Time(at(999)), 70, 0),
    ] {
        let then = read_model.balance_at(&acme, moment).await.unwrap().unwrap();
        let found = (then.balance.available, then.balance.held);
        assert_eq!(found, (credits(available), credits(held)), "{moment:?}");
    }
    let last = read_model.balance_at(&acme, Moment::Time(at(999))).await.unwrap().unwrap();
    assert_eq!(&last.balance, books.account("acme").balance());
    let nobody = read_model.balance_at(&account("nobody"), by_entry).await.unwrap();
    assert_eq!(nobody, None);
}

#[tokio::test]
async fn a_statement_leads_from_its_opening_to_its_closing_balance() {
    let (_books, _, _database, read_model) = told().await;
    let acme = account("acme");
    let period = Period { from: at(10), to: at(30) };
    let whole = read_model.statement(&acme, period, Sequence::ZERO, 10).await.unwrap();
    let kinds: Vec<_> = whole.entries.iter().map(|found| found.entry.entry.fact.kind()).collect();
    assert_eq!(kinds, ["authorize", "capture"]);
    let available =
        |then: &Option<purser_postgres::BalanceThen>| then.as_ref().unwrap().balance.available;
    assert_eq!(available(&whole.opening), credits(100));
    assert_eq!(available(&whole.closing), credits(75));
    assert!(!whole.has_more);
    let page = read_model.statement(&acme, period, Sequence::ZERO, 1).await.unwrap();
    assert!(page.has_more);
    let after = page.entries[0].entry.entry.sequence;
    let rest = read_model.statement(&acme, period, after, 1).await.unwrap();
    assert_eq!(rest.opening, page.closing);
    assert_eq!(rest.closing, whole.closing);
    let quiet = read_model
        .statement(&acme, Period { from: at(11), to: at(12) }, Sequence::ZERO, 5)
        .await
        .unwrap();
    assert_eq!((available(&quiet.opening), quiet.entries.len()), (credits(60), 0));
}

#[tokio::test]
async fn entries_are_found_by_what_they_are_about() {
    let (books, hold, _database, read_model) = told().await;
    let acme = account("acme");
    let find = |search: Search| {
        let (read_model, acme) = (&read_model, &acme);
        async move {
            let found = read_model.search(acme, &search, Sequence::ZERO, 100).await.unwrap();
            found.iter().map(|found| found.entry.entry.fact.kind()).collect::<Vec<_>>()
        }
    };
    let by_key = Search {
        key: Some(purser_types::IdempotencyKey::parse("the charge").unwrap()),
        ..Search::default()
    };
    assert_eq!(find(by_key).await, ["charge"]);
    let by_hold = Search { hold: Some(Sequence(hold)), ..Search::default() };
    assert_eq!(find(by_hold).await, ["authorize", "capture"]);
    let by_reference = Search {
        reference: Some("work 40".to_owned()),
        kind: Some("capture".to_owned()),
        ..Search::default()
    };
    assert_eq!(find(by_reference).await, ["capture"]);
    let by_actor = Search { actor: Some("nobody".to_owned()), ..Search::default() };
    assert!(find(by_actor).await.is_empty());
    // What comes back is the entry itself.
    let all = read_model.search(&acme, &Search::default(), Sequence::ZERO, 100).await.unwrap();
    let told = books.told().0.into_iter().filter(|item| item.account == acme);
    assert_eq!(
        all.into_iter().map(|found| found.entry).collect::<Vec<_>>(),
        told.map(|item| item.entry).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn events_are_read_from_a_cursor_on_and_forgotten_when_all_have_them() {
    let (books, _, _database, read_model) = told().await;
    let items = books.told().0;
    let mut from = Cursor::START;
    let mut read = Vec::new();
    loop {
        let page = read_model.published(&shard(), from, 3).await.unwrap();
        let Some(last) = page.last() else { break };
        from = last.next();
        read.extend(page);
    }
    let ids = |account: &purser_ledger::AccountName, sequence: Sequence| {
        (account.tenant.to_string(), sequence)
    };
    let read_ids: Vec<_> =
        read.iter().map(|it| ids(&it.entry.account, it.entry.entry.entry.sequence)).collect();
    let told_ids: Vec<_> =
        items.iter().map(|item| ids(&item.account, item.entry.entry.sequence)).collect();
    assert_eq!(read_ids, told_ids);
    let forgotten = read_model.forget_published(&shard(), read[3].position).await.unwrap();
    assert_eq!(forgotten, 3);
    let left = read_model.published(&shard(), Cursor::START, 100).await.unwrap();
    assert_eq!(left, read[3..]);
}
