//! Where entries come from: a shard's history, page by page.
//!
//! Not here: how a history is read and how far; that is the feed's business, which gives only what every
//! promotable standby has.

use purser_ledger::{AccountName, Hashed, Residence};
use purser_types::Epoch;

/// A place in a shard's history: every record before it has been read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor(pub u64);

impl Cursor {
    /// Before the first record.
    pub const START: Self = Self(0);
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(formatter)
    }
}

/// One entry of home, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its account.
    pub account: AccountName,
    /// The epoch under which home wrote it.
    pub epoch: Epoch,
    /// Where its record stands: at or after the cursor that the page was asked with, before the page's
    /// `next`.
    pub cursor: Cursor,
    /// The entry.
    pub entry: Hashed,
}

/// Entries in the order of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The entries of home among the records that were read; perhaps none.
    pub items: Vec<Item>,
    /// Where to go on. The same as was asked with if there is nothing new.
    pub next: Cursor,
}

/// Reads a shard's history.
///
/// Of each account it gives the entries in their order, without holes, from the account's first one on:
/// those that came with a move as well. An entry that is in the tables already, because the home before
/// has projected it, is recognized by its hash.
pub trait Source: Send + Sync {
    /// Up to `max` entries among the records from `from` on. May wait a while for news.
    fn page(
        &self,
        from: Cursor,
        max: usize,
    ) -> impl Future<Output = Result<Page, SourceError>> + Send;

    /// Where accounts are by now, one answer each: asked after the pages in question were read, in which
    /// entries of an account may be missing that has come or gone meanwhile.
    fn residences(&self, accounts: &[AccountName]) -> Vec<Residence>;
}

/// Why there is no page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// Not now: asking again may help.
    #[error("the history cannot be read now: {0}")]
    Unavailable(String),
    /// The history is damaged, or what is asked for is not in it.
    #[error("the history cannot be read: {0}")]
    Unreadable(String),
}

/// The name of a shard in the tables, for example `eu/0`. No two histories may share one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(String);

/// A text that names no shard.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a shard's name has 1 to 64 bytes of a-z 0-9 - /")]
pub struct InvalidShard;

impl Shard {
    /// Checks a name.
    pub fn parse(name: &str) -> Result<Self, InvalidShard> {
        let allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-/".contains(&byte);
        let fits = (1..=64).contains(&name.len()) && name.bytes().all(allowed);
        if fits { Ok(Self(name.to_owned())) } else { Err(InvalidShard) }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The region whose homes the shard has: the name's part before the first slash.
    pub(crate) fn region(&self) -> &str {
        region_of(&self.0)
    }
}

/// The region in a shard's name.
pub(crate) fn region_of(shard: &str) -> &str {
    shard.split_once('/').map_or(shard, |(region, _)| region)
}

impl std::fmt::Display for Shard {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}
