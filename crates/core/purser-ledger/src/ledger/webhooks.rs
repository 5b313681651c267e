//! The group's webhooks.

use std::sync::Arc;

use purser_types::{OperationId, SinkName};

use super::Ledger;
use crate::sinks::{self, Moment, Sink, SinkCommand, SinkDone, SinkRefusal};

impl Ledger {
    /// The webhooks, by name.
    pub fn sinks(&self) -> impl Iterator<Item = (&SinkName, &Arc<Sink>)> {
        self.sinks.iter()
    }

    /// A webhook.
    pub fn sink(&self, name: &SinkName) -> Option<&Arc<Sink>> {
        self.sinks.get(name)
    }

    pub(super) fn change_sink(
        &mut self,
        asked: &SinkCommand,
        operation: OperationId,
    ) -> Result<SinkDone, SinkRefusal> {
        sinks::apply(&mut self.sinks, asked, Moment { now: self.log_time, operation })
    }
}
