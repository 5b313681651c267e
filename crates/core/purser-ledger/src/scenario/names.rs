//! The transcript's names for lots, holds and charges.

use std::collections::BTreeMap;

use purser_types::Sequence;

use super::line_error::LineError;
use crate::command::{AccountName, HoldNumber, LotNumber, Target};
use crate::entry::{Entry, Fact};

/// Which name stands for what.
#[derive(Debug, Default)]
pub(super) struct Names {
    meanings: BTreeMap<String, Meaning>,
    /// The first name that each thing was given.
    names: BTreeMap<(AccountName, Sequence), String>,
}

#[derive(Debug, Clone)]
struct Meaning {
    account: AccountName,
    sequence: Sequence,
    is_charge: bool,
}

impl Names {
    /// Gives what an entry made a name.
    pub(super) fn give(&mut self, name: &str, account: &AccountName, entry: &Entry) {
        let is_charge = matches!(entry.fact, Fact::Charged(_));
        let meaning = Meaning { account: account.clone(), sequence: entry.sequence, is_charge };
        self.meanings.insert(name.to_owned(), meaning);
        let thing = (account.clone(), entry.sequence);
        self.names.entry(thing).or_insert_with(|| name.to_owned());
    }

    /// What an answer calls the lot, hold or charge with this number.
    pub(super) fn of(&self, account: &AccountName, sequence: Sequence) -> String {
        let name = self.names.get(&(account.clone(), sequence));
        name.cloned().unwrap_or_else(|| format!("#{}", sequence.0))
    }

    /// The hold or charge that a word means, and its account.
    pub(super) fn target(
        &self,
        word: &str,
        account_before: Option<&AccountName>,
    ) -> Result<(AccountName, Target), LineError> {
        let meaning = self.meaning(word, account_before)?;
        let number = HoldNumber(meaning.sequence);
        let target = if meaning.is_charge { Target::Charge(number) } else { Target::Hold(number) };
        Ok((meaning.account, target))
    }

    /// The lot that a word means, and its account.
    pub(super) fn lot(
        &self,
        word: &str,
        account_before: Option<&AccountName>,
    ) -> Result<(AccountName, LotNumber), LineError> {
        let meaning = self.meaning(word, account_before)?;
        Ok((meaning.account, LotNumber(meaning.sequence)))
    }

    /// A name, or a number of the account of the command before. A name that was never given means
    /// number 0 of that account, which nothing has: what becomes of a request about nothing is for
    /// the ledger to say.
    fn meaning(
        &self,
        word: &str,
        account_before: Option<&AccountName>,
    ) -> Result<Meaning, LineError> {
        if let Some(meaning) = self.meanings.get(word) {
            return Ok(meaning.clone());
        }
        let account = account_before.cloned().ok_or(LineError::NoAccount)?;
        let sequence = match word.strip_prefix('#').map(str::parse) {
            Some(Ok(number)) => Sequence(number),
            Some(Err(_)) => return Err(LineError::Unexpected(word.to_owned())),
            None => Sequence::ZERO,
        };
        Ok(Meaning { account, sequence, is_charge: false })
    }
}
