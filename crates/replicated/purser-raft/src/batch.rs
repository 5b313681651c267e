//! What an entry with commands carries: one stamp, the proposer's name for it, and N commands.
//!
//! The name ([`BatchId`]) finds the callers that wait for the answers, on the node that proposed
//! the batch and only in the same opening of its group: also when another leader committed it.

use bytes::Bytes;
use purser_types::LogTime;

use crate::codec::{Decoder, Encoder, Malformed};
use crate::ids::NodeId;

/// Names a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct BatchId {
    /// Who proposed it.
    pub(crate) node: NodeId,
    /// In which opening of its group: a random number.
    pub(crate) incarnation: u64,
    /// Counts the batches of that life.
    pub(crate) counter: u64,
}

/// The decoded form; commands are slices of the entry.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    pub(crate) at: LogTime,
    pub(crate) id: BatchId,
    pub(crate) commands: Vec<&'a [u8]>,
}

/// Bytes that a command takes beside its own.
pub(crate) const COMMAND_OVERHEAD_BYTES: usize = 4;

pub(crate) fn encode(at: LogTime, id: BatchId, commands: &[Bytes]) -> Bytes {
    const HEADER_BYTES: usize = 36;
    let bytes: usize = commands.iter().map(|command| command.len() + COMMAND_OVERHEAD_BYTES).sum();
    let mut encoder = Encoder::with_capacity(HEADER_BYTES + bytes);
    encoder.u64(at.as_unix_micros()).u64(id.node.0).u64(id.incarnation).u64(id.counter);
    encoder.length(commands.len());
    for command in commands {
        encoder.bytes(command);
    }
    Bytes::from(encoder.finish())
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Batch<'_>, Malformed> {
    let mut decoder = Decoder::new(bytes);
    let at = stamp(&mut decoder)?;
    let id = BatchId {
        node: NodeId(decoder.u64()?),
        incarnation: decoder.u64()?,
        counter: decoder.u64()?,
    };
    let count = decoder.length()?;
    let commands = (0..count).map(|_| decoder.bytes()).collect::<Result<_, _>>()?;
    decoder.finish()?;
    Ok(Batch { at, id, commands })
}

/// The stamp alone.
pub(crate) fn stamp_of(bytes: &[u8]) -> Result<LogTime, Malformed> {
    stamp(&mut Decoder::new(bytes))
}

fn stamp(decoder: &mut Decoder<'_>) -> Result<LogTime, Malformed> {
    LogTime::from_unix_micros(decoder.u64()?)
        .map_err(|_out_of_range| Malformed("stamp beyond the year 9999"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_reads_back_as_it_is_written() {
        let at = LogTime::from_unix_micros(17).unwrap();
        let id = BatchId { node: NodeId(1), incarnation: 2, counter: 3 };
        let commands = [Bytes::from_static(b""), Bytes::from_static(b"one")];
        let bytes = encode(at, id, &commands);
        let batch = decode(&bytes).unwrap();
        assert_eq!((batch.at, batch.id), (at, id));
        assert_eq!(batch.commands, [&b""[..], b"one"]);
        assert_eq!(stamp_of(&bytes), Ok(at));
        for short in 0..bytes.len() {
            assert!(decode(&bytes[..short]).is_err(), "{short} bytes are not a batch");
        }
    }
}
