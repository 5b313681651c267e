//! The database: a pool of connections that see one schema, and the schema's migrations.

use std::str::FromStr;
use std::time::Duration;

use deadpool_postgres::{Manager, Object, Pool, Runtime};
use tokio_postgres::Config;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{DatabaseError, chain};
use crate::tls::{Authorities, connector, spelled};

mod embedded {
    refinery::embed_migrations!("migrations");
}

/// How long a connection may take to come about, or to become free: after that the database counts as
/// away.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// How long a server may leave what it was sent unconfirmed: one that is gone without a word is noticed
/// then, in the middle of a page as well.
const CONFIRM_WITHIN: Duration = Duration::from_secs(30);

/// Migrations of one database take turns under this number, which means nothing else.
const MIGRATION_LOCK: i64 = 0x7075_7273_6572;

/// A schema of a PostgreSQL database.
///
/// Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Database {
    config: Config,
    tls: MakeRustlsConnect,
    schema: Schema,
    pool: Pool,
}

/// The name of a schema: 1 to 48 bytes of a-z 0-9 _, the first a letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Schema(String);

impl Schema {
    fn parse(name: &str) -> Option<Self> {
        let is_plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let starts = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
        let fits = starts && name.len() <= 48 && name.bytes().all(is_plain);
        fits.then(|| Self(name.to_owned()))
    }

    /// The name, which needs no quotes.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (hosts, schema) = (self.config.get_hosts(), &self.schema);
        formatter.debug_struct("Database").field("hosts", &hosts).field("schema", schema).finish()
    }
}

impl Database {
    /// The schema that the read model is kept in if none is named.
    pub const SCHEMA_DEFAULT: &'static str = "purser";

    /// Sets connections up, at most `connections` at a time. Nothing is asked of the database yet.
    ///
    /// `address` is a URL or a list of `key=value`, as libpq takes them. Its `sslmode` may be `disable`,
    /// `prefer` (if it says nothing), or `require` and `verify-full`, which are the same: the server has to
    /// prove its name, and this machine's root certificates count.
    pub fn at(address: &str, schema: &str, connections: usize) -> Result<Self, DatabaseError> {
        Self::vouched_for(address, schema, connections, &Authorities::Machine)
    }

    /// The same, with a choice of who may vouch for the server. Certificates that are given and would not be
    /// asked for are refused.
    pub fn vouched_for(
        address: &str,
        schema: &str,
        connections: usize,
        authorities: &Authorities,
    ) -> Result<Self, DatabaseError> {
        let config = Config::from_str(&spelled(address));
        let mut config = config.map_err(|error| DatabaseError::Address(chain(&error)))?;
        config.application_name("purser");
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_WITHIN);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(CONFIRM_WITHIN);
        }
        let schema = Schema::parse(schema).ok_or_else(|| {
            DatabaseError::Address(format!("{schema:?} is no plain name of a schema"))
        })?;
        let tls = connector(&mut config, authorities)?;
        Self::of((config, tls), schema, connections)
    }

    fn of(
        (config, tls): (Config, MakeRustlsConnect),
        schema: Schema,
        connections: usize,
    ) -> Result<Self, DatabaseError> {
        let mut seeing = config.clone();
        let more = format!("-c search_path={} -c timezone=UTC", schema.as_str());
        let options = config.get_options().map(|given| format!("{given} {more}"));
        seeing.options(options.unwrap_or(more));
        let pool = Pool::builder(Manager::new(seeing, tls.clone()))
            .max_size(connections)
            .runtime(Runtime::Tokio1)
            .create_timeout(Some(CONNECT_WITHIN))
            .wait_timeout(Some(CONNECT_WITHIN))
            .build()
            .map_err(|error| DatabaseError::Address(error.to_string()))?;
        Ok(Self { config, tls, schema, pool })
    }

    /// Another schema of the same database, with a few connections of its own.
    pub(crate) fn beside(&self, suffix: &str) -> Result<Self, DatabaseError> {
        let schema = Schema(format!("{}_{suffix}", self.schema.as_str()));
        Self::of((self.config.clone(), self.tls.clone()), schema, 3)
    }

    /// The schema.
    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// A connection.
    pub(crate) async fn client(&self) -> Result<Object, DatabaseError> {
        Ok(self.pool.get().await?)
    }

    /// Brings the schema up to this release; makes it if it is not there. May be called by several nodes at
    /// once, and again.
    pub async fn migrate(&self) -> Result<(), DatabaseError> {
        let mut client = self.client().await?;
        client.execute("SELECT pg_advisory_lock($1)", &[&MIGRATION_LOCK]).await?;
        let migrated = async {
            let create = format!("CREATE SCHEMA IF NOT EXISTS {}", self.schema.as_str());
            client.batch_execute(&create).await?;
            let runner = embedded::migrations::runner();
            let report = runner.run_async(&mut **client).await;
            report.map_err(|error| DatabaseError::Migration(Box::new(error)))
        };
        let migrated = migrated.await;
        // A connection that is lost here has lost its lock as well.
        client.execute("SELECT pg_advisory_unlock($1)", &[&MIGRATION_LOCK]).await?;
        let applied = migrated?.applied_migrations().len();
        if applied > 0 {
            tracing::info!(schema = self.schema.as_str(), applied, "read model migrated");
        }
        Ok(())
    }

    /// Removes the schema with all that is in it.
    pub(crate) async fn remove(&self) -> Result<(), DatabaseError> {
        let client = self.client().await?;
        let drop = format!("DROP SCHEMA IF EXISTS {} CASCADE", self.schema.as_str());
        Ok(client.batch_execute(&drop).await?)
    }
}
