//! What the golden tests pin about webhooks.

use std::collections::BTreeSet;

use purser_ledger::scenario::MemoryHistory;
use purser_ledger::{
    Advance, Answer, ChangedLetter, ChangedLine, Command, DeadLetter, EntryName, Ledger,
    LetterChange, Line, RedriveAll, SinkAct, SinkCommand, SinkTerms, codec,
};
use purser_types::{IdempotencyKey, Machine, OperationId, Position, SinkName, Span, Stamped};

use super::{account, at, sequence};

fn command(act: SinkAct) -> Command {
    let sink = SinkName::parse("billing").unwrap();
    let (actor, reason) = (Some("kim".into()), Some("because".into()));
    Command::Sink(Box::new(SinkCommand { sink, act, actor, reason }))
}

fn event(number: u64) -> EntryName {
    EntryName { account: account(), sequence: sequence(number) }
}

fn letter() -> DeadLetter {
    DeadLetter { attempts: 22, error: "the receiver answered 500".into(), died_at: at(70) }
}

fn create() -> SinkAct {
    let terms = SinkTerms {
        url: "https://a.example/hook".into(),
        tenants: BTreeSet::from([account().tenant]),
        kinds: BTreeSet::from(["charge".into()]),
        attempts_max: 22,
    };
    SinkAct::Create { terms, secret: "whsec_one".into(), from: Position(160) }
}

/// With something in every field.
fn advance(after: OperationId) -> SinkAct {
    let line = Line {
        next: sequence(4),
        passed: sequence(9),
        attempts: 2,
        due: at(80),
        error: "could not connect".into(),
        since: at(60),
    };
    let letters = [
        LetterChange::Died(letter()),
        LetterChange::Settled,
        LetterChange::Tried { attempts: 3, due: at(90) },
        LetterChange::DiedAgain(letter()),
        LetterChange::Died(letter()),
    ];
    let letters = letters.into_iter().zip(1..);
    SinkAct::Advance(Advance {
        after,
        cursor: Position(320),
        lines: vec![ChangedLine { account: account(), line: Some(line) }],
        letters: letters
            .map(|(change, number)| ChangedLetter { event: event(number), change })
            .collect(),
        disable: Some("there are 10000 dead letters".into()),
    })
}

fn redrive_all() -> SinkAct {
    let key = IdempotencyKey::parse("k-1").unwrap();
    SinkAct::RedriveAll(RedriveAll { key, limit: 1_000, died_before: Some(at(70)) })
}

/// One of each.
pub(super) fn commands() -> Vec<(&'static str, Command)> {
    let rotate = SinkAct::Rotate { secret: "whsec_two".into(), overlap: Span::from_days(1) };
    [
        ("webhook_create", create()),
        ("webhook_remove", SinkAct::Remove),
        ("webhook_rotate", rotate),
        ("webhook_enable", SinkAct::Enable),
        ("webhook_disable", SinkAct::Disable { why: "maintenance".into() }),
        ("webhook_redrive", SinkAct::Redrive(event(1))),
        ("webhook_discard", SinkAct::Discard { event: event(1), died_at: at(70) }),
        ("webhook_redrive_all", redrive_all()),
        ("webhook_advance", advance(OperationId { index: 7, ordinal: 1 })),
    ]
    .map(|(name, act)| (name, command(act)))
    .into()
}

/// The group has a webhook with some of everything.
pub(super) fn tell(ledger: &mut Ledger, history: &mut MemoryHistory) {
    let rotate = SinkAct::Rotate { secret: "whsec_two".into(), overlap: Span::from_days(1) };
    let created = OperationId { index: 110, ordinal: 0 };
    let acts = [create(), rotate, advance(created), SinkAct::Redrive(event(5)), redrive_all()];
    for (act, index) in acts.into_iter().zip(created.index..) {
        let command = codec::encode(&command(act));
        let stamped = Stamped { index, ordinal: 0, at: at(70), command: &command };
        let answer = ledger.apply(stamped, history).unwrap();
        assert!(matches!(answer, Answer::Sink(Ok(done)) if done.is_changed), "{answer:?}");
    }
}
