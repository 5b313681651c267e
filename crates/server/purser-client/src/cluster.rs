//! The cluster: one method for each call about groups and nodes.
//!
//! These changes are statements of what shall be. They have no key, and all attempts of a call may
//! be carried out without harm; what is [`ClientError::Unknown`] is simply said again.

use purser_api::{
    ClusterAnswer, GroupAnswer, GroupNumber, LeaderRequest, NodeNumber, VotersRequest, paths,
};
use serde::Serialize;

use crate::call::Call;
use crate::client::{Client, Request};
use crate::error::ClientError;

/// The groups of a cluster and who takes part in them. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Cluster {
    client: Client,
}

impl Cluster {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// The groups, as the node that is asked sees them.
    pub async fn groups(&self, call: &Call) -> Result<ClusterAnswer, ClientError> {
        let request = Request::get(paths::ADMIN_CLUSTER.to_owned());
        Ok(self.client.send(request, call.time).await?.body)
    }

    /// Makes a node get a group's log without voting. It has caught up when the leader shows no lag
    /// of it.
    pub async fn add_learner(
        &self,
        group: GroupNumber,
        node: NodeNumber,
        call: &Call,
    ) -> Result<GroupAnswer, ClientError> {
        let path = paths::fill(paths::ADMIN_GROUP_LEARNER, &[&group, &node]);
        self.put(path, None::<&()>, call).await
    }

    /// Says who votes in a group.
    pub async fn set_voters(
        &self,
        group: GroupNumber,
        body: &VotersRequest,
        call: &Call,
    ) -> Result<GroupAnswer, ClientError> {
        let path = paths::fill(paths::ADMIN_GROUP_VOTERS, &[&group]);
        self.put(path, Some(body), call).await
    }

    /// Hands a group's leadership to a voter. If that takes long, the answer shows how far it has
    /// come.
    pub async fn set_leader(
        &self,
        group: GroupNumber,
        body: &LeaderRequest,
        call: &Call,
    ) -> Result<GroupAnswer, ClientError> {
        let path = paths::fill(paths::ADMIN_GROUP_LEADER, &[&group]);
        self.put(path, Some(body), call).await
    }

    async fn put(
        &self,
        path: String,
        body: Option<&impl Serialize>,
        call: &Call,
    ) -> Result<GroupAnswer, ClientError> {
        Ok(self.client.send(Request::put(path, body), call.time).await?.body)
    }
}
