//! Who leads which group, as a node tells operators.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::http::Api;

/// The leader of each group, by the group's number. Groups whose leader is not known are left out.
pub async fn leaders(api: &Api) -> BTreeMap<u64, u64> {
    let Ok(reply) = api.try_get("/admin/v1/cluster").await else { return BTreeMap::new() };
    let groups = reply.body["groups"].as_array().cloned().unwrap_or_default();
    let leader = |group: &Value| Some((group["group"].as_u64()?, group["leader"].as_u64()?));
    groups.iter().filter_map(leader).collect()
}

/// The group of a tenant's account in the default unit.
///
/// Worked out here once more: the rule may never change, because it says where ledgers lie.
pub(crate) fn group_of(tenant: &str, shards: u32) -> u64 {
    let digest: [u8; 32] = Sha256::digest(format!("{tenant}\0credits")).into();
    let [a, b, c, d, ..] = digest;
    u64::from(u32::from_be_bytes([a, b, c, d]) % shards)
}
