//! What a shard's leader believes of its standbys, and what it may therefore tell anybody (R1).

use std::collections::BTreeMap;

use purser_types::{Epoch, Region};

use crate::change::ChangeNumber;
use crate::tenant::{Beginning, TenantPlacement};

/// What a leader knows in its term. Another term begins anew: with nothing known of any standby, so that
/// each is waited for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Watched {
    /// The term in which this node leads; nothing if it does not.
    term: Option<u64>,
    /// Whether all is known that Placement knew when the term had begun: so that a tenant without
    /// standbys does not wait for any.
    is_placed: bool,
    /// What is known of each standby. One that is not named is not known to follow.
    standbys: BTreeMap<Region, Following>,
}

/// What a leader knows of one standby.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Following {
    /// It is waited for, and what it acknowledges counts.
    Acknowledges,
    /// The same, but it is about to be dropped: nobody is told that it will be waited for.
    Leaving,
    /// No tenant can be promoted to it, and it is not waited for.
    Dropped,
}

/// Whether a standby is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// It is not.
    None,
    /// It is, and what it acknowledges counts.
    Acknowledged,
    /// It is, and it has not said yet that it follows; or this node does not lead.
    Unsure,
}

/// The account's home is elsewhere by now, which does not know of what was decided here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the account has another home")]
pub struct Fenced;

impl Watched {
    /// Begins anew if the term in which this node leads is another one. Whether it is.
    pub fn begin(&mut self, leading: Option<u64>) -> bool {
        let is_new = self.term != leading;
        if is_new {
            *self = Self { term: leading, ..Self::default() };
        }
        is_new
    }

    /// Whether Placement is to be asked what it knows, which [`Watched::note_placed`] then notes.
    pub const fn lacks_placement(&self) -> bool {
        self.term.is_some() && !self.is_placed
    }

    /// Notes that all is known here that Placement knew after `term` had begun. Whether that is news.
    pub fn note_placed(&mut self, term: u64) -> bool {
        let is_news = self.term == Some(term) && !self.is_placed;
        self.is_placed |= is_news;
        is_news
    }

    /// Whether it is known who stands by for whom.
    pub const fn is_placed(&self) -> bool {
        self.is_placed
    }

    /// The term that this is about, if it is the one in which this node leads now.
    pub fn current(&self, leading: Option<u64>) -> Option<u64> {
        self.term.filter(|_| self.term == leading)
    }

    /// What is known of a standby.
    pub fn following(&self, standby: Region) -> Option<Following> {
        self.standbys.get(&standby).copied()
    }

    /// Notes what was learned of a standby in `term`. Whether that is news.
    pub fn note(&mut self, term: u64, standby: Region, following: Following) -> bool {
        self.term == Some(term) && self.standbys.insert(standby, following) != Some(following)
    }

    /// Notes that a standby that is waited for is about to be dropped: from here on nothing is promised, so
    /// nobody takes it back while it is dropped. Of one that has not said that it follows, nothing was
    /// promised, and its acknowledgments do not begin to count. Whether that is news.
    pub fn note_leaving(&mut self, term: u64, standby: Region) -> bool {
        self.following(standby) == Some(Following::Acknowledges)
            && self.note(term, standby, Following::Leaving)
    }

    /// Whether a tenant's answers wait for a standby. `known` is the tenant as this node knows Placement.
    pub fn need(
        &self,
        leading: Option<u64>,
        standby: Region,
        known: Option<&TenantPlacement>,
    ) -> Need {
        if self.current(leading).is_none() {
            return Need::Unsure;
        }
        let following = self.following(standby);
        let stands_by =
            |known: &TenantPlacement| known.standbys.iter().any(|listed| listed.region == standby);
        let known = known.filter(|_| self.is_placed);
        match following {
            Some(Following::Dropped) => Need::None,
            _ if known.is_some_and(|known| !stands_by(known)) => Need::None,
            Some(Following::Acknowledges | Following::Leaving) => Need::Acknowledged,
            None => Need::Unsure,
        }
    }

    /// Begins to promise that a standby has all that is here and will be waited for, for whichever tenant it
    /// stands by since `placed`. Nothing if that cannot be promised.
    ///
    /// `as_of` is up to where Placement is known here, and `written` the last entry that was shown, both
    /// read after a majority has confirmed that this node leads: so whoever has led before knows nothing
    /// more.
    pub fn promise(
        &self,
        standby: Region,
        (placed, as_of): (ChangeNumber, ChangeNumber),
        written: Option<u64>,
    ) -> Option<Promising> {
        let is_waited_for = self.following(standby) == Some(Following::Acknowledges);
        let written = written.filter(|_| is_waited_for && placed <= as_of)?;
        Some(Promising { believed: self.clone(), written })
    }
}

/// A promise that holds once a standby has what there was.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Promising {
    believed: Watched,
    /// The index that the standby has to acknowledge: what is answered from here on waits for it.
    pub written: u64,
}

impl Promising {
    /// Whether the promise can be given, after the acknowledgment: nothing is believed otherwise than
    /// when it began, in the same term.
    pub fn holds(&self, now: &Watched, leading: Option<u64>) -> bool {
        self.believed == *now && now.current(leading).is_some()
    }
}

/// Refuses to tell what was decided under an epoch that ended with a lost home. What ended with a move has
/// been taken along. `known` is the tenant as this node knows Placement, looked at after all waiting;
/// `decided` the epoch under which the account decides here, or did until it has left.
pub fn check_home(known: Option<&TenantPlacement>, decided: Option<Epoch>) -> Result<(), Fenced> {
    let Some(known) = known else { return Ok(()) };
    let decided = decided.ok_or(Fenced)?;
    let is_next = known.epoch == Epoch(decided.0.saturating_add(1));
    let is_lost = known.beginning == Beginning::FailedOver;
    if known.epoch <= decided || is_next && !is_lost { Ok(()) } else { Err(Fenced) }
}
