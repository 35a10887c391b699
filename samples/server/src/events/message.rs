//! A batch of cache events as MessagePack.
//!
//! ```text
//!   [ time, [event, event, ...], 0 ]            0: the rank, of which there is one
//!
//!   vllm          {"type": "BlockStored", "block_hashes": [...], ...}     a run of blocks each
//!   sglang        the same with "cache_salt"                              one block each
//!   vllm-array    ["BlockStored", [...], ...]                             what both sent until 2026, and
//!   sglang-array  ["BlockStored", [...], ...]                             what some routers still read
//! ```

use std::str::FromStr;

use rmp::encode as pack;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dialect {
    #[default]
    Vllm,
    Sglang,
    VllmArray,
    SglangArray,
}

impl FromStr for Dialect {
    type Err = ();

    fn from_str(name: &str) -> Result<Dialect, ()> {
        match name {
            "vllm" => Ok(Dialect::Vllm),
            "sglang" => Ok(Dialect::Sglang),
            "vllm-array" => Ok(Dialect::VllmArray),
            "sglang-array" => Ok(Dialect::SglangArray),
            _ => Err(()),
        }
    }
}

impl Dialect {
    /// Whether an event may tell of more than one block that was stored.
    fn joins(self) -> bool {
        matches!(self, Dialect::Vllm | Dialect::VllmArray)
    }

    /// Whether the topic stands in front of what is replayed, too.
    pub fn replays_topic(self) -> bool {
        self == Dialect::Vllm
    }
}

/// Blocks have names above 0 that fit into 63 bits, so they are the same number signed and unsigned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Stored(Stored),
    Removed(Vec<u64>),
    Cleared,
}

/// Blocks of a path, one behind the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub blocks: Vec<u64>,
    pub parent: Option<u64>,
    /// Of all of them.
    pub tokens: Vec<u32>,
    /// The number of a namespace; `None` stands for the one of requests without key and salt.
    pub tenant: Option<i32>,
}

/// Joins what may be told in one event.
pub fn join(events: Vec<Event>, dialect: Dialect) -> Vec<Event> {
    let mut joined: Vec<Event> = Vec::with_capacity(events.len());
    for event in events {
        match (joined.last_mut(), event) {
            (Some(Event::Stored(run)), Event::Stored(next))
                if dialect.joins()
                    && next.parent.is_some()
                    && next.parent == run.blocks.last().copied()
                    && next.tenant == run.tenant =>
            {
                run.blocks.extend(next.blocks);
                run.tokens.extend(next.tokens);
            }
            (Some(Event::Removed(blocks)), Event::Removed(more)) => blocks.extend(more),
            (_, event) => joined.push(event),
        }
    }
    joined
}

/// The bytes of a batch; `time` in seconds since 1970.
pub fn encode(time: f64, events: &[Event], dialect: Dialect) -> Vec<u8> {
    let mut out = Vec::new();
    // Writing into memory does not fail.
    let _ = write_batch(&mut out, time, events, dialect);
    out
}

type Written = Result<(), pack::ValueWriteError>;

fn write_batch(out: &mut Vec<u8>, time: f64, events: &[Event], dialect: Dialect) -> Written {
    pack::write_array_len(out, 3)?;
    pack::write_f64(out, time)?;
    pack::write_array_len(out, length(events))?;
    for event in events {
        match dialect {
            Dialect::Vllm | Dialect::Sglang => write_map(out, event, dialect)?,
            Dialect::VllmArray | Dialect::SglangArray => write_array(out, event, dialect)?,
        }
    }
    pack::write_uint(out, 0)?;
    Ok(())
}

fn write_map(out: &mut Vec<u8>, event: &Event, dialect: Dialect) -> Written {
    let vllm = dialect == Dialect::Vllm;
    match event {
        Event::Stored(stored) => {
            let own = match (vllm, stored.tenant) {
                (true, _) => 4,
                (false, tenant) => u32::from(tenant.is_some()),
            };
            pack::write_map_len(out, 7 + own)?;
            field(out, "type")?;
            pack::write_str(out, "BlockStored")?;
            field(out, "block_hashes")?;
            numbers(out, &stored.blocks)?;
            field(out, "parent_block_hash")?;
            optional(out, stored.parent)?;
            field(out, "token_ids")?;
            numbers(out, &stored.tokens)?;
            field(out, "block_size")?;
            pack::write_uint(out, stored.block_size())?;
            field(out, "lora_id")?;
            nil(out)?;
            field(out, "medium")?;
            pack::write_str(out, MEDIUM)?;
            if vllm {
                field(out, "lora_name")?;
                nil(out)?;
                field(out, "extra_keys")?;
                extra_keys(out, stored)?;
                field(out, "group_idx")?;
                pack::write_uint(out, 0)?;
                field(out, "kv_cache_spec_kind")?;
                pack::write_str(out, KIND)?;
            } else if let Some(tenant) = stored.tenant {
                field(out, "cache_salt")?;
                pack::write_str(out, &label(tenant))?;
            }
        }
        Event::Removed(blocks) => {
            pack::write_map_len(out, if vllm { 4 } else { 3 })?;
            field(out, "type")?;
            pack::write_str(out, "BlockRemoved")?;
            field(out, "block_hashes")?;
            numbers(out, blocks)?;
            field(out, "medium")?;
            pack::write_str(out, MEDIUM)?;
            if vllm {
                field(out, "group_idx")?;
                pack::write_uint(out, 0)?;
            }
        }
        Event::Cleared => {
            pack::write_map_len(out, 1)?;
            field(out, "type")?;
            pack::write_str(out, "AllBlocksCleared")?;
        }
    }
    Ok(())
}

fn write_array(out: &mut Vec<u8>, event: &Event, dialect: Dialect) -> Written {
    let vllm = dialect == Dialect::VllmArray;
    match event {
        Event::Stored(stored) => {
            let own = match (vllm, stored.tenant) {
                (true, _) => 4,
                (false, tenant) => u32::from(tenant.is_some()),
            };
            pack::write_array_len(out, 7 + own)?;
            pack::write_str(out, "BlockStored")?;
            numbers(out, &stored.blocks)?;
            optional(out, stored.parent)?;
            numbers(out, &stored.tokens)?;
            pack::write_uint(out, stored.block_size())?;
            nil(out)?; // the number of an adapter
            pack::write_str(out, MEDIUM)?;
            if vllm {
                nil(out)?; // the name of an adapter
                extra_keys(out, stored)?;
                pack::write_uint(out, 0)?;
                pack::write_str(out, KIND)?;
            } else if let Some(tenant) = stored.tenant {
                pack::write_map_len(out, 1)?;
                field(out, "cache_salt")?;
                pack::write_str(out, &label(tenant))?;
            }
        }
        Event::Removed(blocks) => {
            pack::write_array_len(out, if vllm { 4 } else { 3 })?;
            pack::write_str(out, "BlockRemoved")?;
            numbers(out, blocks)?;
            pack::write_str(out, MEDIUM)?;
            if vllm {
                pack::write_uint(out, 0)?;
            }
        }
        Event::Cleared => {
            pack::write_array_len(out, 1)?;
            pack::write_str(out, "AllBlocksCleared")?;
        }
    }
    Ok(())
}

/// Where routers take blocks to be that a request can go on from at once; they know no other word for it.
const MEDIUM: &str = "GPU";
const KIND: &str = "full_attention";

impl Stored {
    fn block_size(&self) -> u64 {
        (self.tokens.len() / self.blocks.len().max(1)) as u64
    }
}

/// What tells the blocks of a tenant from those of others. It names nobody.
fn label(tenant: i32) -> String {
    format!("namespace-{tenant}")
}

/// One entry a block: the first block of a path has what all that follow depend on.
fn extra_keys(out: &mut Vec<u8>, stored: &Stored) -> Written {
    let Some(tenant) = stored.tenant else {
        return nil(out);
    };
    pack::write_array_len(out, length(&stored.blocks))?;
    for i in 0..stored.blocks.len() {
        if i == 0 && stored.parent.is_none() {
            pack::write_array_len(out, 1)?;
            pack::write_str(out, &label(tenant))?;
        } else {
            nil(out)?;
        }
    }
    Ok(())
}

fn field(out: &mut Vec<u8>, name: &str) -> Written {
    pack::write_str(out, name)
}

fn nil(out: &mut Vec<u8>) -> Written {
    pack::write_nil(out).map_err(pack::ValueWriteError::InvalidMarkerWrite)
}

fn optional(out: &mut Vec<u8>, number: Option<u64>) -> Written {
    match number {
        Some(number) => pack::write_uint(out, number).map(drop),
        None => nil(out),
    }
}

fn numbers<T: Copy + Into<u64>>(out: &mut Vec<u8>, numbers: &[T]) -> Written {
    pack::write_array_len(out, length(numbers))?;
    for &number in numbers {
        pack::write_uint(out, number.into())?;
    }
    Ok(())
}

fn length<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(block: u64, parent: Option<u64>, tenant: Option<i32>) -> Event {
        Event::Stored(Stored {
            blocks: vec![block],
            parent,
            tokens: vec![7, 70_000],
            tenant,
        })
    }

    #[test]
    fn runs_are_joined_where_the_dialect_has_them() {
        let events = vec![
            stored(1, None, None),
            stored(2, Some(1), None),
            stored(3, Some(1), None), // parts from the path of 2
            stored(4, Some(3), Some(5)),
            Event::Removed(vec![4]),
            Event::Removed(vec![3]),
            Event::Cleared,
        ];
        let joined = join(events.clone(), Dialect::Vllm);
        assert_eq!(joined.len(), 5);
        let Event::Stored(run) = &joined[0] else {
            panic!("{joined:?}")
        };
        assert_eq!(
            (run.blocks.len(), run.tokens.len(), run.block_size()),
            (2, 4, 2)
        );
        assert_eq!(joined[3], Event::Removed(vec![4, 3]));
        // One block an event, but removed ones together.
        assert_eq!(join(events, Dialect::Sglang).len(), 6);
    }

    /// The bytes by hand, as the specification of MessagePack has them.
    #[test]
    fn a_batch_is_an_array_of_three() {
        let bytes = encode(1.0, &[Event::Cleared], Dialect::SglangArray);
        let mut want = vec![0x93, 0xcb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0x91, 0x91, 0xb0];
        want.extend(b"AllBlocksCleared");
        want.push(0);
        assert_eq!(bytes, want);
    }
}
