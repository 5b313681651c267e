//! Why the database did not do what it was asked.
//!
//! One question decides what comes next: can asking again help? A database that is away, overloaded or
//! found two of us in each other's way says nothing about the data; a violated constraint does.

use std::error::Error;

use tokio_postgres::error::{DbError, SqlState};

/// No answer from the database, or not the one that was wanted.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// It is away, or was lost on the way. What was under way may have been committed or not.
    #[error("the database cannot be reached")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
    /// It undid a transaction because of another one: a deadlock, or no serial order.
    #[error("the transaction was undone because of another one")]
    Conflict(#[source] tokio_postgres::Error),
    /// A row would break a rule of the tables. Nothing was written.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// The tables could not be brought up to this release.
    #[error("the tables could not be migrated")]
    Migration(#[source] Box<refinery::Error>),
    /// The connection cannot be set up like this.
    #[error("the address of the database does not serve: {0}")]
    Address(String),
    /// A row that the tables have cannot be read as what it should be.
    #[error("a row of {table} cannot be read: {detail}")]
    Unreadable {
        /// Of which table.
        table: &'static str,
        /// What is wrong with it.
        detail: String,
    },
    /// Anything else: a right is missing, a table, a function.
    #[error("the database refused a statement")]
    Refused(#[source] tokio_postgres::Error),
}

/// A constraint that a row would break, and the row as the database names it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("table {table}: {constraint} is violated: {row}")]
pub struct Violation {
    /// The table.
    pub table: String,
    /// The constraint.
    pub constraint: String,
    /// The row, or its key.
    pub row: String,
}

impl DatabaseError {
    /// Whether asking again may help.
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Conflict(_) => true,
            Self::Violation(_)
            | Self::Migration(_)
            | Self::Address(_)
            | Self::Unreadable { .. }
            | Self::Refused(_) => false,
        }
    }
}

impl From<tokio_postgres::Error> for DatabaseError {
    fn from(error: tokio_postgres::Error) -> Self {
        if let Some(refusal) = error.as_db_error() {
            return match kind_of(refusal) {
                Kind::Conflict => Self::Conflict(error),
                Kind::Unavailable => Self::Unavailable(Box::new(error)),
                Kind::Violation => Self::Violation(violation(refusal)),
                Kind::Other => Self::Refused(error),
            };
        }
        // Without an answer of the database it is the connection that failed, unless a value could not be
        // converted: then the cause is of another kind.
        match error.source() {
            Some(cause) if !cause.is::<std::io::Error>() => Self::Refused(error),
            Some(_) | None => Self::Unavailable(Box::new(error)),
        }
    }
}

impl From<deadpool_postgres::PoolError> for DatabaseError {
    fn from(error: deadpool_postgres::PoolError) -> Self {
        match error {
            // No value is read or written while a connection is made. What the database has not answered is
            // the connection's failure, TLS included, and passes.
            deadpool_postgres::PoolError::Backend(error) if error.as_db_error().is_none() => {
                Self::Unavailable(Box::new(error))
            }
            deadpool_postgres::PoolError::Backend(error) => error.into(),
            other => Self::Unavailable(Box::new(other)),
        }
    }
}

enum Kind {
    Conflict,
    Unavailable,
    Violation,
    Other,
}

fn kind_of(refusal: &DbError) -> Kind {
    let code = refusal.code();
    if [&SqlState::T_R_DEADLOCK_DETECTED, &SqlState::T_R_SERIALIZATION_FAILURE].contains(&code) {
        return Kind::Conflict;
    }
    // A standby that was promoted elsewhere answers that it is read-only.
    if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
        return Kind::Unavailable;
    }
    match code.code().get(..2) {
        // Constraints.
        Some("23") => Kind::Violation,
        // Connections, resources, an operator's or a crash's shutdown.
        Some("08" | "53" | "57") => Kind::Unavailable,
        Some(_) | None => Kind::Other,
    }
}

fn violation(refusal: &DbError) -> Violation {
    let named = |name: Option<&str>| name.unwrap_or("?").to_owned();
    Violation {
        table: named(refusal.table()),
        constraint: named(refusal.constraint().or_else(|| refusal.column())),
        row: refusal.detail().unwrap_or_else(|| refusal.message()).to_owned(),
    }
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        line = format!("{line}: {inner}");
        cause = inner.source();
    }
    line
}
