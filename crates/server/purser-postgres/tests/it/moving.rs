//! Accounts that come and go: what is compared and built again of them, wherever their rows are.

use purser_ledger::{Operation, Policy};
use purser_postgres::{Database, History, Projector, ProjectorSettings, Shard, rebuild, verify};

use crate::support::agreement::check_agrees;
use crate::support::books::{Books, Told, account, charge, grant};
use crate::support::server::TestDatabase;

/// Two regions, and the databases in which they keep their tables: one each, or the same.
struct Regions {
    here: Books,
    there: Books,
    database_here: Database,
    database_there: Database,
    /// How many accounts a database keeps of the one that has gone: in shared tables they are the new home's.
    kept: u64,
}

fn history(shard: &str, source: Told) -> [History<Told>; 1] {
    [History { shard: Shard::parse(shard).unwrap(), source }]
}

async fn project(database: &Database, shard: &str, told: Told) {
    let shard = Shard::parse(shard).unwrap();
    let projector = Projector::new(database.clone(), shard, told, ProjectorSettings::default());
    projector.catch_up().await.unwrap();
}

impl Regions {
    /// An account that will move beside one that stays, and one that was in the other region always.
    fn with(database_here: &Database, database_there: &Database) -> Self {
        let (mut here, mut there) = (Books::with("acme"), Books::default());
        here.open("bolt", Policy::default());
        for tenant in ["acme", "bolt"] {
            here.accept(tenant, Operation::Grant(grant(100)));
            here.accept(tenant, charge(7));
        }
        there.open_at("us", "cargo", Policy::default());
        there.accept("cargo", Operation::Grant(grant(50)));
        let kept = u64::from(!std::ptr::eq(database_here, database_there));
        let (database_here, database_there) = (database_here.clone(), database_there.clone());
        Self { here, there, database_here, database_there, kept }
    }

    /// Neither region finds a difference in what is its own. Gives how many accounts have gone from each, and
    /// how many have come to it and are not told whole.
    async fn check_sound(&self, when: &str) -> [(u64, u64); 2] {
        let mut left_out = Vec::new();
        for (database, shard, told) in [
            (&self.database_here, "eu/0", self.here.told()),
            (&self.database_there, "us/0", self.there.told()),
        ] {
            let found = verify(database, &history(shard, told)).await.unwrap();
            assert!(found.is_sound(), "{when}, {shard}: {}", found.first().unwrap());
            left_out.push((found.gone, found.arriving));
        }
        left_out.try_into().unwrap()
    }

    /// Projects a region's history one entry at a time, and has all compared after each; in the middle
    /// both build their tables again, if they are to.
    async fn project_slowly(&self, is_there: bool, rebuilds: bool) {
        let (database, shard, told) = if is_there {
            (&self.database_there, "us/0", self.there.told())
        } else {
            (&self.database_here, "eu/0", self.here.told())
        };
        for entries in 1..=told.0.len() {
            project(database, shard, told.first(entries)).await;
            self.check_sound(&format!("{shard} up to {entries}")).await;
            if rebuilds {
                rebuild(&self.database_here, &history("eu/0", self.here.told())).await.unwrap();
                rebuild(&self.database_there, &history("us/0", self.there.told())).await.unwrap();
                self.check_sound(&format!("{shard} up to {entries}, built again")).await;
            }
        }
    }

    /// `acme` moves there, and its new home's projector has not told it whole.
    async fn move_there(&mut self) {
        project(&self.database_here, "eu/0", self.here.told()).await;
        project(&self.database_there, "us/0", self.there.told()).await;
        assert_eq!(self.check_sound("before").await, [(0, 0), (0, 0)]);
        // One part comes before it has stopped.
        self.there.take_over("acme", &self.here, 2);
        project(&self.database_there, "us/0", self.there.told()).await;
        assert_eq!(self.check_sound("on its way").await, [(0, 0), (1, 0)]);
        self.here.stop("acme", "us");
        assert_eq!(self.check_sound("stopped").await, [(1, 0), (1, 0)]);
        self.there.take_over("acme", &self.here, 100);
        self.there.take_home("acme", &mut self.here, "us");
        assert_eq!(self.check_sound("has gone").await, [(1, 0), (0, 1)]);
    }

    /// `acme` moves back.
    fn move_back(&mut self) {
        self.there.stop("acme", "eu");
        self.here.take_over("acme", &self.there, 100);
        self.here.take_home("acme", &mut self.there, "eu");
    }

    /// `acme` moves there and back, and all is compared wherever projectors are.
    async fn move_there_and_back(&mut self, rebuilds: bool) {
        self.move_there().await;
        self.there.accept("acme", charge(5));
        self.there.accept("cargo", charge(5));
        self.project_slowly(true, rebuilds).await;
        assert_eq!(self.check_sound("is told whole").await, [(self.kept, 0), (0, 0)]);
        self.move_back();
        self.here.accept("acme", charge(3));
        self.here.accept("bolt", charge(3));
        assert_eq!(self.check_sound("has gone back").await, [(0, 1), (1, 0)]);
        self.project_slowly(false, rebuilds).await;
        assert_eq!(self.check_sound("is told whole again").await, [(0, 0), (self.kept, 0)]);
    }
}

#[tokio::test]
async fn what_is_lost_of_an_account_that_arrives_is_told_as_not_compared_and_named_once_it_is_whole()
 {
    let ((_first, here), (database, there)) =
        (TestDatabase::migrated().await, TestDatabase::migrated().await);
    let mut regions = Regions::with(&here, &there);
    regions.move_there().await;
    let lose = "DELETE FROM entries WHERE tenant = 'acme' AND sequence = 2";
    assert_eq!(database.client().await.execute(lose, &[]).await.unwrap(), 1);
    assert_eq!(regions.check_sound("lost").await, [(1, 0), (0, 1)]);
    project(&there, "us/0", regions.there.told()).await;
    let found = verify(&there, &history("us/0", regions.there.told())).await.unwrap();
    assert_eq!((found.gone, found.arriving), (0, 0));
    let named = "entries acme/credits/2: missing (100 credits)";
    assert_eq!(found.first().unwrap().to_string(), named);
}

#[tokio::test]
async fn what_an_account_leaves_in_a_database_is_no_difference() {
    let ((first, here), (_second, there)) =
        (TestDatabase::migrated().await, TestDatabase::migrated().await);
    let mut regions = Regions::with(&here, &there);
    regions.move_there_and_back(false).await;
    check_agrees(&first.client().await, &regions.here.ledger).await;
}

#[tokio::test]
async fn an_account_that_comes_to_shared_tables_is_compared_once_it_is_told_whole() {
    let (database, shared) = TestDatabase::migrated().await;
    let mut regions = Regions::with(&shared, &shared);
    regions.move_there_and_back(false).await;
    let query = "SELECT used FROM balances WHERE tenant = 'acme'";
    let row = database.client().await.query_one(query, &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 15);
}

/// A rebuild has nothing of an account that has gone, while the outbox stays.
#[tokio::test]
async fn an_account_that_comes_back_after_a_rebuild_is_told_again_and_published_once() {
    let ((database, here), (_second, there)) =
        (TestDatabase::migrated().await, TestDatabase::migrated().await);
    let mut regions = Regions::with(&here, &there);
    regions.move_there().await;
    project(&here, "eu/0", regions.here.told()).await;
    rebuild(&here, &history("eu/0", regions.here.told())).await.unwrap();
    assert_eq!(regions.check_sound("built again").await, [(0, 0), (0, 1)]);
    regions.move_back();
    project(&here, "eu/0", regions.here.told()).await;
    // Else the other region's history would end before what was projected of it.
    regions.there.accept("cargo", charge(5));
    assert_eq!(regions.check_sound("has come back").await, [(0, 0), (0, 0)]);
    let client = database.client().await;
    check_agrees(&client, &regions.here.ledger).await;
    let published = "SELECT sequence FROM outbox WHERE tenant = 'acme' ORDER BY sequence";
    let published = client.query(published, &[]).await.unwrap();
    let published: Vec<i64> = published.iter().map(|row| row.get(0)).collect();
    let entries = i64::try_from(published.len()).unwrap();
    assert_eq!(published, (1..=entries).collect::<Vec<_>>());
    let told = "SELECT count(*) FROM entries WHERE tenant = 'acme'";
    assert_eq!(client.query_one(told, &[]).await.unwrap().get::<_, i64>(0), entries);
}

/// The new home's projector goes on from the rows that the old one's has written: a rebuild of either leaves
/// them, or that projector would find a hole and stop.
#[tokio::test]
async fn a_rebuild_of_shared_tables_leaves_the_rows_of_an_account_that_moves() {
    let (database, shared) = TestDatabase::migrated().await;
    let mut regions = Regions::with(&shared, &shared);
    regions.move_there_and_back(true).await;
    let query = "SELECT used FROM balances WHERE tenant = 'acme'";
    let row = database.client().await.query_one(query, &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 15);
}

/// Only an account that was here is history: rows that somebody made up are named, and so is harm to the rows of
/// an account that has come.
#[tokio::test]
async fn harm_is_named_in_what_is_here_and_in_what_nobody_ever_had() {
    let (database, shared) = TestDatabase::migrated().await;
    let mut regions = Regions::with(&shared, &shared);
    regions.move_there_and_back(false).await;
    let client = database.client().await;
    let harm = "UPDATE lots SET free = free - 1, used = used + 1 WHERE tenant = 'acme'";
    client.batch_execute(harm).await.unwrap();
    let here = history("eu/0", regions.here.told());
    let found = verify(&shared, &here).await.unwrap();
    let first = found.first().unwrap().to_string();
    assert_eq!(
        first,
        "lots acme/credits/2: free is 84, expected 85, used is 16, expected 15 (2 credits)"
    );
    rebuild(&shared, &here).await.unwrap();
    regions.check_sound("mended").await;
    let invent =
        "INSERT INTO accounts SELECT 'nobody', unit, status, home, epoch, opened_at, debt_limit,
             takeback_cap, unacknowledged_max, key_retention_micros, record_retention_micros,
             entry_sequence FROM accounts WHERE tenant = 'acme'";
    client.batch_execute(invent).await.unwrap();
    let found = verify(&shared, &here).await.unwrap();
    let first = found.first().unwrap().to_string();
    assert_eq!(first, "accounts nobody/credits: accounted for by no entry (0 credits)");
}

/// A verification reads for minutes, and not always where the leader is: what is known of an account at the
/// end of it may be less, or more, than what its pages were read with.
#[tokio::test]
async fn an_account_that_leaves_while_its_history_is_read_is_not_compared() {
    let (_database, shared) = TestDatabase::migrated().await;
    let mut regions = Regions::with(&shared, &shared);
    let before = regions.here.told();
    project(&shared, "eu/0", before.clone()).await;
    regions.here.stop("acme", "us");
    regions.there.take_over("acme", &regions.here, 100);
    regions.there.take_home("acme", &mut regions.here, "us");
    // Pages after the first were read when it had gone.
    let mut cut = Told(before.0.clone(), regions.here.told().1);
    cut.0.retain(|item| item.account != account("acme") || item.entry.entry.sequence.0 < 2);
    assert!(cut.0.len() < before.0.len());
    assert!(verify(&shared, &history("eu/0", cut)).await.unwrap().is_sound());
    // A replica that has not heard of it, while the new home's rows are there.
    project(&shared, "us/0", regions.there.told()).await;
    assert!(verify(&shared, &history("eu/0", before)).await.unwrap().is_sound());
}
