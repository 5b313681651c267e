//! Webhooks in a snapshot: a header each, and what there are many of in lists.

use std::sync::Arc;

use minicbor::{Decode, Encode};
use purser_types::{CorruptSnapshot, CowMap, LogTime, OperationId, Position, SinkName};

use super::{
    DeadLetter, Disabled, EntryName, Line, RedriveTold, Redriven, Sink, SinkNote, SinkSecret,
    SinkTerms, Sinks,
};
use crate::account::{Piece, cut};
use crate::codec;
use crate::command::AccountName;

/// A piece of a webhook. Its header comes first.
#[derive(Encode, Decode)]
pub(crate) enum SinkPiece {
    #[n(0)]
    Header(#[n(0)] SinkName, #[n(1)] Box<Header>),
    #[n(1)]
    Lines(#[n(0)] SinkName, #[n(1)] Vec<(AccountName, Line)>),
    #[n(2)]
    Letters(#[n(0)] SinkName, #[n(1)] Vec<(EntryName, DeadLetter)>),
    #[n(3)]
    Redriven(#[n(0)] SinkName, #[n(1)] Vec<(EntryName, Redriven)>),
}

/// What a webhook has only one of.
#[derive(Encode, Decode)]
pub(crate) struct Header {
    #[n(0)]
    terms: SinkTerms,
    #[n(1)]
    secrets: Vec<SinkSecret>,
    #[n(2)]
    created_at: LogTime,
    #[n(3)]
    disabled: Option<Disabled>,
    #[n(4)]
    step: OperationId,
    #[n(5)]
    cursor: Position,
    #[n(6)]
    #[cbor(default)]
    redrives: Vec<RedriveTold>,
    #[n(7)]
    #[cbor(default)]
    notes: Vec<SinkNote>,
}

/// The webhooks of a group, as encoded pieces.
pub(crate) fn pieces_of_sinks(sinks: Sinks) -> impl Iterator<Item = Vec<u8>> + Send {
    sinks.into_iter().flat_map(|(name, sink)| {
        let header = Header {
            terms: sink.terms.clone(),
            secrets: sink.secrets.clone(),
            created_at: sink.created_at,
            disabled: sink.disabled.clone(),
            step: sink.step,
            cursor: sink.cursor,
            redrives: sink.redrives.clone(),
            notes: sink.notes.clone(),
        };
        let (lines, letters, redriven) = (name.clone(), name.clone(), name.clone());
        std::iter::once(SinkPiece::Header(name, Box::new(header)))
            .chain(cut(sink.lines.clone()).map(move |some| SinkPiece::Lines(lines.clone(), some)))
            .chain(
                cut(sink.letters.clone())
                    .map(move |some| SinkPiece::Letters(letters.clone(), some)),
            )
            .chain(
                cut(sink.redriven.clone())
                    .map(move |some| SinkPiece::Redriven(redriven.clone(), some)),
            )
            .map(|piece| codec::encode(&Piece::Sink(piece)))
    })
}

impl SinkPiece {
    /// Adds what it says to webhooks that are being rebuilt.
    pub(crate) fn restore(self, sinks: &mut Sinks) -> Result<(), CorruptSnapshot> {
        match self {
            Self::Header(name, header) => {
                sinks.insert(name, Arc::new(header.into_sink()));
            }
            Self::Lines(name, some) => add(sink_of(sinks, &name)?, |sink| &mut sink.lines, some),
            Self::Letters(name, some) => {
                add(sink_of(sinks, &name)?, |sink| &mut sink.letters, some)
            }
            Self::Redriven(name, some) => {
                add(sink_of(sinks, &name)?, |sink| &mut sink.redriven, some);
            }
        }
        Ok(())
    }
}

impl Header {
    fn into_sink(self) -> Sink {
        let Self { terms, secrets, created_at, disabled, step, cursor, redrives, notes } = self;
        let (lines, letters) = (CowMap::default(), CowMap::default());
        let redriven = CowMap::default();
        Sink {
            terms,
            secrets,
            created_at,
            disabled,
            step,
            cursor,
            lines,
            letters,
            redriven,
            redrives,
            notes,
        }
    }
}

fn sink_of<'a>(sinks: &'a mut Sinks, name: &SinkName) -> Result<&'a mut Sink, CorruptSnapshot> {
    let missing = || CorruptSnapshot("a piece before its webhook".into());
    Ok(Arc::make_mut(sinks.get_mut(name).ok_or_else(missing)?))
}

fn add<K: Ord + Clone, V: Clone>(
    sink: &mut Sink,
    map: impl Fn(&mut Sink) -> &mut CowMap<K, V>,
    pairs: Vec<(K, V)>,
) {
    for (key, value) in pairs {
        map(sink).insert(key, value);
    }
}
