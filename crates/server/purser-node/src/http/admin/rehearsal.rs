//! Dry runs: what an act would do, by doing it to a copy.
//!
//! The copy costs nothing (the ledger is copied on write), the rules are the real ones, and what
//! is shown is what would be answered. The `confirm` that a dry run gives names the state it saw;
//! the act is refused if the account has changed since.

use purser_ledger::{
    AccountName, Answer, Command, Confirm, Context, Item, Ledger, Operation, Outcome,
};
use purser_raft::GroupHistory;
use purser_types::{History, HistoryError, HistoryReader, LogTime, Machine, OperationId, Position};

use crate::http::call::Call;
use crate::http::problem::{NotDone, Refusal};
use crate::http::routing::{Decision, tenant_not_found};
use crate::tasks::chain;

/// What an act would do.
pub(super) struct Rehearsed {
    /// What to name when it is done for real.
    pub(super) confirm: Confirm,
    /// What would be decided.
    pub(super) done: Decision,
}

/// Does `act` to a copy of an account and tells what came of it.
pub(super) async fn rehearse(
    call: &Call,
    account: &AccountName,
    act: impl FnOnce(Confirm) -> Operation + Send + 'static,
) -> Result<Rehearsed, NotDone> {
    let (name, decided) = (account.clone(), call.decided_in(call.seat, account));
    let group = call.api.groups().of(account);
    call.confirm_home(account).await?;
    let rehearsing = call.read_long(|| {
        let (mut copy, history, now) = (group.machine(), group.history(), group.now());
        move || {
            let now = now.max(copy.log_time());
            let mut stage = Stage::new(&history);
            let confirm = state_of(&copy, &name, &history, now)?;
            let outcome = play(&mut copy, &mut stage, &name, act(confirm), now)?;
            let homes = copy.account(&name).map(|account| account.homes().to_vec());
            let done = Decision::of(outcome, decided, homes.unwrap_or_default())?;
            Ok(Rehearsed { confirm, done })
        }
    });
    Ok(rehearsing.await?)
}

/// What names the account's state, with everything applied that is due.
fn state_of(
    ledger: &Ledger,
    name: &AccountName,
    history: &dyn HistoryReader,
    now: LogTime,
) -> Result<Confirm, Refusal> {
    let account = ledger.account(name).ok_or_else(tenant_not_found)?;
    let settled = account.at(now, history).map_err(|error| Refusal::of_history(&error))?;
    Ok(Confirm(settled.account().head().sequence))
}

fn play(
    copy: &mut Ledger,
    stage: &mut Stage<'_>,
    name: &AccountName,
    operation: Operation,
    now: LogTime,
) -> Result<Outcome, Refusal> {
    let item = Item::new(Context::default(), operation);
    let command = Command::at_home(name.clone(), vec![item]);
    let answer = copy.apply_command(&command, now, OperationId::default(), stage);
    let answer = answer.map_err(|error| Refusal::internal(chain(&error)))?;
    let Answer::Account(mut outcomes) = answer else {
        return Err(Refusal::internal("an act was answered like a sweep"));
    };
    outcomes.pop().ok_or_else(|| Refusal::internal("an act without an outcome"))
}

/// A history that keeps what is appended to itself.
struct Stage<'a> {
    below: &'a GroupHistory,
    appended: Vec<Vec<u8>>,
}

/// Positions on the stage start here, beyond any real history.
const STAGE_BASE: u64 = 1 << 62;

impl<'a> Stage<'a> {
    const fn new(below: &'a GroupHistory) -> Self {
        Self { below, appended: Vec::new() }
    }
}

impl HistoryReader for Stage<'_> {
    fn read(&self, position: Position) -> Result<Vec<u8>, HistoryError> {
        let Some(place) = position.0.checked_sub(STAGE_BASE) else {
            return self.below.read(position);
        };
        let record = usize::try_from(place).ok().and_then(|place| self.appended.get(place));
        record.cloned().ok_or(HistoryError::NoRecord(position))
    }
}

impl History for Stage<'_> {
    fn append(&mut self, record: &[u8]) -> Position {
        let place = u64::try_from(self.appended.len()).expect("a dry run writes a few entries");
        self.appended.push(record.to_vec());
        Position(STAGE_BASE.saturating_add(place))
    }
}
