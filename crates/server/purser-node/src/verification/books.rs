//! What home has booked of its allocations, held against the regions' own books.
//!
//! An allocation's entries form a chain of their own. Home knows how far it has booked them, the hash of the
//! last one, and what was spent and returned by then; the region's book must have that very entry.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use purser_api::{GroupNumber, VerificationSubject};
use purser_ledger::{AccountName, Allocation, AllocationStatus, Ledger};
use purser_raft::{Group, GroupHistory, NodeId};
use purser_types::{Credits, HistoryError, Owner, Region, Sequence};

use super::Check;
use crate::groups::Groups;
use crate::regions::{Answered, Ask, Regions};
use crate::shards::Shard;
use crate::tasks::chain;

/// How many books are asked for at a time: some 100 KiB.
const ASKED_MAX: usize = 500;

/// How long a region may take to look them up.
const PATIENCE: Duration = Duration::from_secs(20);

/// Asks a region for entries of its books.
#[derive(Debug, Clone, Encode, Decode)]
pub(crate) struct BooksAsked {
    /// The shard, the same on both sides.
    #[n(0)]
    pub(crate) shard: u32,
    /// Which entries of which books.
    #[n(1)]
    pub(crate) entries: Vec<EntryAsked>,
}

/// One entry of a region's book.
#[derive(Debug, Clone, Encode, Decode)]
pub(crate) struct EntryAsked {
    #[n(0)]
    account: AccountName,
    #[n(1)]
    owner: Owner,
    #[n(2)]
    sequence: Sequence,
}

/// A region's book as of one of its entries.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct BookThere {
    /// The entry's hash.
    #[n(0)]
    hash: ByteVec,
    /// Ever spent.
    #[n(1)]
    spent: Credits,
    /// Ever returned.
    #[n(2)]
    returned: Credits,
}

/// What home has booked of one allocation.
struct BookedHere {
    asked: EntryAsked,
    there: BookThere,
}

/// Compares what a shard's homes have booked of open allocations.
pub(super) async fn compare(regions: &Regions, (shard, group): (Shard, &Group<Ledger>)) -> Check {
    let mut check = Check::new(VerificationSubject::Regions, Some(GroupNumber(group.id().0)));
    for (region, booked) in booked_by_region(&group.machine()) {
        for booked in booked.chunks(ASKED_MAX) {
            match look_up(regions, (region, shard), booked).await {
                Ok(there) => hold_against(&mut check, booked, &there),
                Err(why) => check.not_compared(format!("region {region}: {why}")),
            }
        }
    }
    check
}

fn booked_by_region(ledger: &Ledger) -> BTreeMap<Region, Vec<BookedHere>> {
    let mut by_region: BTreeMap<Region, Vec<BookedHere>> = BTreeMap::new();
    for account in ledger.accounts_with_allocations() {
        // Of another than an open one its region may have lost track, and home knows that.
        let open = |allocation: &&Allocation| allocation.status == AllocationStatus::Open;
        for allocation in account.allocations().filter(open) {
            let owner = allocation.owner;
            let Some(hash) = allocation.booked.hash else { continue };
            let sequence = allocation.booked.sequence;
            by_region.entry(owner.region).or_default().push(BookedHere {
                asked: EntryAsked { account: account.name().clone(), owner, sequence },
                there: BookThere {
                    hash: hash.to_vec().into(),
                    spent: allocation.spent,
                    returned: allocation.returned,
                },
            });
        }
    }
    by_region
}

async fn look_up(
    regions: &Regions,
    (region, shard): (Region, Shard),
    booked: &[BookedHere],
) -> Result<Vec<Option<BookThere>>, String> {
    let entries = booked.iter().map(|booked| booked.asked.clone()).collect();
    let ask = Ask::Books(BooksAsked { shard: shard.0, entries });
    let deadline = Instant::now() + PATIENCE;
    match regions.ask_shard((region, shard), &ask, deadline).await {
        Ok(Answered::Books(there)) if there.len() == booked.len() => Ok(there),
        Ok(_) => Err("its answer is to another question".to_owned()),
        Err(error) => Err(chain(&error)),
    }
}

fn hold_against(check: &mut Check, booked: &[BookedHere], there: &[Option<BookThere>]) {
    for (BookedHere { asked, there: here }, there) in booked.iter().zip(there) {
        check.compared = check.compared.saturating_add(1);
        let EntryAsked { account, owner, sequence } = asked;
        let name = format!(
            "{}/{}, entry {} of {}/{}",
            account.tenant, account.unit, sequence.0, owner.region, owner.generation.0
        );
        let Some(there) = there else {
            let credits = u128::from(here.spent.get()) + u128::from(here.returned.get());
            check.differs(
                format!("{name}: booked at home, and the region does not have it"),
                credits,
            );
            continue;
        };
        let apart = |here: Credits, there: Credits| u128::from(here.get().abs_diff(there.get()));
        let credits = apart(here.spent, there.spent) + apart(here.returned, there.returned);
        if credits > 0 {
            let text = format!(
                "{name}: spent is {} at home and {} there, returned is {} and {}",
                here.spent, there.spent, here.returned, there.returned
            );
            check.differs(text, credits);
        } else if here.hash != there.hash {
            check.differs(format!("{name}: another entry at home than there"), 0);
        }
    }
}

/// Answers what this region's books say: as the leader of their shard has them, after all that was committed.
pub(crate) async fn answer_books(groups: &Groups, own: NodeId, asked: BooksAsked) -> Answered {
    let not_now = |reason: String| Answered::NotNow { reason };
    let Some(group) = groups.of_shard(Shard(asked.shard)) else {
        return not_now("there is no such shard".to_owned());
    };
    if let Err(error) = group.read_barrier(Instant::now() + PATIENCE).await {
        return match group.leader().filter(|leader| *leader != own) {
            Some(leader) => Answered::NotLeader { leader: Some(leader.0) },
            None => not_now(chain(&error)),
        };
    }
    let (ledger, history) = (group.machine(), group.history());
    let looking = move || books_here(&ledger, &history, &asked.entries);
    match tokio::task::spawn_blocking(looking).await {
        Ok(Ok(books)) => Answered::Books(books),
        Ok(Err(error)) => not_now(chain(&error)),
        Err(error) => not_now(chain(&error)),
    }
}

/// Reads the disk.
fn books_here(
    ledger: &Ledger,
    history: &GroupHistory,
    asked: &[EntryAsked],
) -> Result<Vec<Option<BookThere>>, HistoryError> {
    let find = |asked: &EntryAsked| {
        let Some(book) = ledger.book(&asked.account, asked.owner.generation) else {
            return Ok(None);
        };
        let entry = book.entry(asked.sequence, history)?;
        Ok(entry.map(|found| BookThere {
            hash: found.hash.to_vec().into(),
            spent: found.entry.balance.used,
            returned: found.entry.balance.returned,
        }))
    };
    asked.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use purser_api::VerificationOutcome;
    use purser_types::{Generation, TenantId, Unit};

    use super::*;

    fn book(hash: u8, spent: u64, returned: u64) -> BookThere {
        let credits = |amount| Credits::from_u64(amount).unwrap();
        BookThere {
            hash: vec![hash; 32].into(),
            spent: credits(spent),
            returned: credits(returned),
        }
    }

    #[track_caller]
    fn check_difference(there: Option<BookThere>, expected: &str, credits: u128) {
        let account =
            AccountName { tenant: TenantId::parse("acme").unwrap(), unit: Unit::credits() };
        let owner = Owner { region: Region::parse("eu").unwrap(), generation: Generation(3) };
        let asked = EntryAsked { account, owner, sequence: Sequence(17) };
        let mut check = Check::new(VerificationSubject::Regions, None);
        hold_against(&mut check, &[BookedHere { asked, there: book(1, 40, 5) }], &[there]);
        let told = check.finish();
        let sound = told.outcome == VerificationOutcome::Sound;
        assert_eq!((sound, told.credits.0), (expected.is_empty(), credits), "{told:?}");
        assert_eq!(told.differences.concat(), expected);
    }

    #[test]
    fn a_regions_book_that_says_something_else_is_named_with_the_amounts() {
        check_difference(Some(book(1, 40, 5)), "", 0);
        check_difference(
            Some(book(2, 38, 6)),
            "acme/credits, entry 17 of eu/3: spent is 40 at home and 38 there, returned is 5 and 6",
            3,
        );
        check_difference(
            Some(book(2, 40, 5)),
            "acme/credits, entry 17 of eu/3: another entry at home than there",
            0,
        );
        check_difference(
            None,
            "acme/credits, entry 17 of eu/3: booked at home, and the region does not have it",
            45,
        );
    }
}
