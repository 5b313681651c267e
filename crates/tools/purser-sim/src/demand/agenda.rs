//! What happens next: events by their time, and at one time in the order in which they were planned.

use std::collections::BTreeMap;

use purser_types::Span;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Agenda<E> {
    events: BTreeMap<(Span, u64), E>,
    planned: u64,
}

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Self { events: BTreeMap::new(), planned: 0 }
    }
}

impl<E> Agenda<E> {
    pub(super) fn plan(&mut self, at: Span, event: E) {
        self.planned += 1;
        self.events.insert((at, self.planned), event);
    }

    pub(super) fn next(&mut self) -> Option<(Span, E)> {
        self.events.pop_first().map(|((at, _), event)| (at, event))
    }
}

/// The instant `span` after `at`.
pub(super) fn after(at: Span, span: Span) -> Span {
    Span::from_micros(at.as_micros() + span.as_micros())
}

pub(super) const fn millis(millis: u64) -> Span {
    Span::from_micros(millis * 1_000)
}
