//! Transcripts: commands at stated log times, and what an account in memory answers.
//!
//! ```text
//! # A release goes back to the lots it came from.
//! open acme
//! > open home=here
//! > A=0
//! grant acme 100 lot=L1 exp=100s
//! > grant L1 100 until=100s, granted>available L1=100
//! > A=100
//! authorize acme 40 hold=h1 ttl=60s key=a1
//! > authorize h1 40 until=60s, available>held L1=40
//! > A=60 H=40
//! @ 10s
//! release h1
//! > release h1, held>available L1=40
//! > A=100
//! ```
//!
//! One command a line; `#` starts a comment, `>` an answer, `@` sets the logs' clock. An answer tells
//! the entries that were written (those of what had become due first), a rejection with its
//! figures, and the balance: `A` available, `H` held, `U` used, `X` expired, `V` voided, `D` debt,
//! `P` pending, `R` returned, and by a region's name what is out there; what is zero is left out.
//! `(remembered)` marks a decision that was taken before under the same key. A command without a key
//! has one of its own. Names of lots, holds and charges are the transcript's; what it did not name is
//! called by its number, as `#5`.
//!
//! | Commands | |
//! |---|---|
//! | `open T`, `grant T 100`, `authorize T 40`, `charge T 40`, `adjust T +5` | `T` is `tenant` or `tenant/unit` |
//! | `capture h1 25`, `release h1`, `extend h1 until=90s`, `refund h1 20`, `reclaim h1` | `h1` is a hold or a charge; at home `refund eu:h1` is about one of a closed allocation |
//! | `void L1`, `policy T debt_limit=50`, `freeze T`, `unfreeze T`, `close T` | |
//! | `charge T 40 exhausted`, `charge T 40 stranded=30:eu,us` | what the leader has found out about credits in regions |
//! | `batch T` … `end` | the lines between take effect together or not at all |
//! | `sweep`, `restart` | writes down what is due; goes on from a snapshot |
//! | `balance T`, `totals T`, `lots T`, `entries T`, `check T 30`, `hold h1`, `history h1` | questions: nothing is written |
//!
//! # Jobs
//!
//! ```text
//! job acme j1 40 hold=h1 for=60s as=me
//! > authorize h1 net=0, job j1 leased until=60s attempts=1, available>held L1=40
//! > A=60 H=40
//! outcome acme j1 failed
//! > release h1 net=0, job j1 queued due=1s attempts=1, held>available L1=40
//! > A=100
//! ```
//!
//! | Commands | |
//! |---|---|
//! | `job T j1 40`, `job T j1 40 charged`, `job T j1 40 enqueue queue=video attempts=5 base=1s max=1h` | the caller has the first lease, `for=60s`, unless it is enqueued |
//! | `lease video max=5 for=60s as=w1` | gives due jobs of all accounts to a worker |
//! | `outcome T j1 succeeded`, `outcome T j1 failed`, `outcome T j1 failed for_good by=w1` | `by=` names the lease that the worker had last |
//! | `renew T j1 by=w1 for=60s`, `redrive T j1`, `discard T j1` | |
//! | `jobs T` | a question: those that have not ended |
//!
//! # Usage events
//!
//! | Commands | |
//! |---|---|
//! | `event T meter e1 10`, `event T meter e1 10 time=1300s` | a charge of 10; of a sender `meter` that calls it `e1` |
//! | `event T meter e1 10 of=h1`, `event T meter e1 of=h1` | the last capture of a hold |
//! | `event T meter e1 job=j1 outcome=succeeded` | a job's outcome |
//! | `resolve T 7`, `resolve T 7 as_charge`, `drop_event T 7` | about the event that entry 7 parked |
//! | `parked T` | a question: what is parked |
//! # Budgets
//!
//! ```text
//! budget acme team 50
//! > budget team limit=50
//! > A=100
//! charge acme 20 charge=c1 budgets=team
//! > charge c1 20 under team, available>used L1=20
//! > A=80 U=20
//! budgets acme
//! > team limit=50 used=20 left=30
//! ```
//!
//! | Commands | |
//! |---|---|
//! | `budget T key:a 10 parent=team periods=0s,10s,20s` | the periods by the instants between them; their lengths repeat |
//! | `remove_budget T key:a` | |
//! | `authorize T 5 budgets=key:a,key:b`, `charge`, `job`, `check` | under budgets |
//! | `budgets T` | a question |
//!
//! # Regions
//!
//! ```text
//! allocate acme eu 40
//! > allocate eu/1 granted=40 out=40, available>allocated:eu L1=40
//! > A=60 eu=40
//! voucher acme eu v1
//! > eu/1 number=1 granted=40 L1=40
//! deliver v1
//! > voucher eu/1 number=1 granted=40 L1=40, granted>available L1=40
//! > A=40
//! eu: charge acme 5
//! > charge #2 5, available>used L1=5
//! > A=35 U=5
//! ```
//!
//! A line that begins with a region is asked of that region's newest allocation of the account, every
//! other line of home. Each is a group with a ledger, a log and a history of its own. Nothing passes
//! between them but messages, which have names: one that is never delivered is lost, and one may be
//! delivered again, or after a later one. Names of holds and charges are each region's own, those of
//! lots are home's. `eu/1` is the region's first allocation; `generation=1` means it once there is a
//! second.
//!
//! | Commands | |
//! |---|---|
//! | `allocate T eu 40`, `allocate T eu 40 lasting=60s`, `overdraft T eu 10`, `mode T eu strict`, `on_expiry T eu keep`, `recall T eu keep=5` | of home |
//! | `transfer T eu us 40` | of home: from eu to us |
//! | `take_back T eu`, `take_back T eu forced`, `write_off T eu` | of home |
//! | `eu: return T keep=5 recall=1`, `eu: finish T`, `eu: seal T` | of a region, like all that spends |
//! | `eu: pass_on charge T 5 key=k1` | notes that home decides the call, for a day or `for=1h` |
//! | `voucher T eu v1` | writes home's voucher as it is now; `epoch=2`: as a later home would |
//! | `eu: report T r1` | writes the region's entries that home has not booked; `from=2 to=5`: these |
//! | `deliver v1` | gives a message to whom it is for |
//! | `eu: backup`, `eu: restore` | goes back to the last backup, or to nothing |
//! | `allocations T`, `bound T` | questions; `eu: allocations T` asks for the region's own view |
//!
//! # Homes
//!
//! ```text
//! stop acme us
//! > home_stopped to=us epoch=1
//! import acme
//! > imported up to #3, refusals up to #3, stopped for us
//! take_home acme us epoch=2
//! > home_moved us epoch=2
//! > at home since epoch 2
//! ```
//!
//! An account is taken over by a group of its own, which is what lines without a region are asked of
//! from `take_home` on; the home before plays on as `old`.
//!
//! | Commands | |
//! |---|---|
//! | `stop T us`, `stay T epoch=2`, `write_off_tail T` | of home |
//! | `standby` | home's standby has everything up to here |
//! | `import T`, `import T standby`, `abandon T` | takes over what home, or its standby, has |
//! | `take_home T us epoch=2`, `take_home T us epoch=2 lost=here` | makes that group home: after a move, or a fail-over |
//! | `old: step_down T us epoch=2` | tells the home before of it |
//! | `tail T` | books what the home before had decided besides |
//!
//! After every command the player checks every invariant of every account, and that no account could
//! turn out more overspent than the bound says if its regions reported now. At the end it proves what
//! [`Unproved`] lists, of every group. Not here: files, terminals, HTTP; text goes in and text comes
//! out.

mod allocating;
mod allocation_texts;
mod budgets;
mod events;
mod group;
mod jobs;
mod line_error;
mod memory;
mod messages;
mod moment;
mod moving_texts;
mod names;
mod overspend;
mod player;
mod proof;
mod questions;
mod rejection_texts;
mod requests;
mod telling;
mod words;

pub use memory::MemoryHistory;
pub use proof::Unproved;

use purser_types::{ApplyError, CorruptSnapshot, HistoryError};

use crate::invariants::Violation;
use player::Player;

/// Why a transcript cannot be played to its end. Whatever it is, the ledger is wrong: a line that
/// makes no sense is answered with `unreadable`, and the play goes on.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// A command left an account in a state that should not be.
    #[error("after line {line} an account is not as it should be")]
    Violated {
        /// The command's line, from 1.
        line: usize,
        /// What is not as it should be.
        #[source]
        violation: Violation,
    },
    /// The ledger could not go on.
    #[error("at line {line} the ledger cannot go on")]
    Stopped {
        /// The command's line, from 1.
        line: usize,
        /// Why not.
        #[source]
        error: ApplyError,
    },
    /// A snapshot cannot be read back.
    #[error("at line {line} the ledger cannot be restored from its own snapshot")]
    NotRestored {
        /// The line, from 1.
        line: usize,
        /// What the snapshot lacks.
        #[source]
        error: CorruptSnapshot,
    },
    /// The end does not prove to be what the commands led to.
    #[error("the outcome cannot be proved")]
    Unproved(#[source] Unproved),
}

/// Plays a transcript. Returns it with the answers that the ledger gave, in the place of those that
/// were there: equal to the transcript if that was right.
///
/// ```
/// let transcript = "open acme\ngrant acme 100 lot=L1\ncheck acme 30\n";
/// let answered = purser_ledger::scenario::play(transcript)?;
/// assert!(answered.ends_with("check acme 30\n> allowed L1=30\n"));
/// assert_eq!(purser_ledger::scenario::play(&answered)?, answered);
/// # Ok::<(), purser_ledger::scenario::ScenarioError>(())
/// ```
pub fn play(transcript: &str) -> Result<String, ScenarioError> {
    let mut player = Player::default();
    let mut answered = String::new();
    for (text, line) in transcript.lines().zip(1..) {
        if text.starts_with('>') {
            continue;
        }
        push_line(&mut answered, text);
        let answers = player.take(text, line).map_err(|stop| stop.at(line))?;
        for answer in answers {
            push_line(&mut answered, &format!("> {answer}"));
        }
    }
    player.prove().map_err(ScenarioError::Unproved)?;
    Ok(answered)
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// Why the player stops, before it is known at which line.
#[derive(Debug)]
enum Stop {
    Violated(Violation),
    Stopped(ApplyError),
    NotRestored(CorruptSnapshot),
}

impl Stop {
    fn at(self, line: usize) -> ScenarioError {
        match self {
            Self::Violated(violation) => ScenarioError::Violated { line, violation },
            Self::Stopped(error) => ScenarioError::Stopped { line, error },
            Self::NotRestored(error) => ScenarioError::NotRestored { line, error },
        }
    }
}

impl From<ApplyError> for Stop {
    fn from(error: ApplyError) -> Self {
        Self::Stopped(error)
    }
}

impl From<HistoryError> for Stop {
    fn from(error: HistoryError) -> Self {
        Self::Stopped(error.into())
    }
}

impl From<CorruptSnapshot> for Stop {
    fn from(error: CorruptSnapshot) -> Self {
        Self::NotRestored(error)
    }
}

impl From<Violation> for Stop {
    fn from(violation: Violation) -> Self {
        Self::Violated(violation)
    }
}
