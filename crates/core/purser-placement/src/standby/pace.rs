//! How long a shard's leader waits for a standby that is silent or lags behind, and what it does then.

use purser_types::Span;

use super::watching::Following;

/// Since when a standby lacks what, in a leader's term. It begins anew with each [`Following`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Pace {
    lacks: Option<Lack>,
}

/// A standby has not had all that there was at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Lack {
    /// The moment.
    since: Span,
    /// The last entry that there was.
    written: Option<u64>,
}

/// What a leader sees of a standby when it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Look {
    /// When, on a clock that only goes forward.
    pub at: Span,
    /// The last entry there was before the standby was asked to follow.
    pub written: Option<u64>,
    /// Whether it said that it follows.
    pub follows: bool,
    /// What it has acknowledged after that.
    pub acknowledged: Option<u64>,
}

/// What a leader does about a standby that it has looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Looks again.
    Wait,
    /// Takes it for this from now on.
    Note(Following),
    /// Has it dropped: [`Watched::note_leaving`](super::Watched::note_leaving), then it asks the keeper. When
    /// the keeper says that no tenant can be promoted to it, it learns what Placement knows, because a tenant
    /// may have been failed over before; and then it takes the standby for dropped.
    Drop,
}

impl Pace {
    /// What to do about a standby that is taken for `following`, after a look at it. One that has not had
    /// for `silence` what there was is dropped.
    ///
    /// `was_dropped` says whether no tenant is promotable as far as is known, so that a new leader need not
    /// wait for what the one before has waited for.
    pub fn step(
        &mut self,
        following: Option<Following>,
        (look, silence): (&Look, Span),
        was_dropped: impl FnOnce() -> bool,
    ) -> Step {
        let now = Lack { since: look.at, written: look.written };
        let lack = *self.lacks.get_or_insert(now);
        let has_all = look.follows && look.acknowledged >= lack.written;
        let is_over = !has_all && since(lack.since, look.at) >= silence;
        if has_all {
            self.lacks = Some(now);
        }
        match following {
            None | Some(Following::Leaving) if look.follows => Step::Note(Following::Acknowledges),
            None if is_over || was_dropped() => Step::Drop,
            Some(Following::Acknowledges) if is_over => Step::Drop,
            Some(Following::Leaving) => Step::Drop,
            Some(Following::Dropped) if has_all => Step::Note(Following::Acknowledges),
            None | Some(Following::Acknowledges | Following::Dropped) => Step::Wait,
        }
    }
}

/// How long ago `earlier` was.
pub(super) const fn since(earlier: Span, now: Span) -> Span {
    Span::from_micros(now.as_micros().saturating_sub(earlier.as_micros()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE: Span = Span::from_secs(3);

    fn look(second: u64, written: u64, acknowledged: Option<u64>) -> Look {
        let (at, follows) = (Span::from_secs(second), acknowledged.is_some());
        Look { at, written: Some(written), follows, acknowledged }
    }

    #[track_caller]
    fn check(following: Option<Following>, looks: &[(Look, Step)]) {
        let mut pace = Pace::default();
        for (look, expected) in looks {
            let step = pace.step(following, (look, SILENCE), || false);
            assert_eq!(step, *expected, "{look:?}");
        }
    }

    /// A new leader has no answer of it to count from.
    #[test]
    fn a_standby_of_which_nothing_is_ever_heard_is_dropped_after_its_silence() {
        let silent = [(look(0, 1, None), Step::Wait), (look(3, 1, None), Step::Drop)];
        check(None, &silent);
        check(Some(Following::Acknowledges), &silent);
    }

    #[test]
    fn a_standby_that_lags_is_dropped_when_it_has_not_had_for_its_silence_what_there_was() {
        let follows = Some(Following::Acknowledges);
        // It is behind at each look, and has had what there was at the look before.
        let busy = [
            (look(0, 5, Some(4)), Step::Wait),
            (look(2, 9, Some(8)), Step::Wait),
            (look(4, 12, Some(11)), Step::Wait),
        ];
        check(follows, &busy);
        let stuck = [(look(0, 5, Some(4)), Step::Wait), (look(3, 9, Some(4)), Step::Drop)];
        check(follows, &stuck);
    }

    #[test]
    fn a_dropped_standby_is_waited_for_again_once_it_has_caught_up() {
        let back = Step::Note(Following::Acknowledges);
        let catching_up = [
            (look(0, 5, None), Step::Wait),
            (look(9, 5, Some(4)), Step::Wait),
            (look(10, 7, Some(5)), back),
        ];
        check(Some(Following::Dropped), &catching_up);
    }

    #[test]
    fn a_new_leader_does_not_wait_for_what_was_dropped_before_it() {
        let mut pace = Pace::default();
        let silent = look(0, 1, None);
        assert_eq!(pace.step(None, (&silent, SILENCE), || true), Step::Drop);
        assert_eq!(
            pace.step(Some(Following::Acknowledges), (&silent, SILENCE), || true),
            Step::Wait
        );
    }
}
