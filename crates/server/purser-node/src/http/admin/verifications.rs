//! Verifications: starting one, and how far it has come.
//!
//! A verification goes on when the caller has gone, so starting one carries no idempotency key: while one
//! goes on, that one is answered. The node that carries it out is named in its id, and whoever is asked
//! passes the question on to it.

use purser_api::{
    ProblemCode as Code, VerificationAnswer, VerificationId, VerificationRequest, paths,
};
use purser_raft::NodeId;

use crate::http::call::Call;
use crate::http::describe::{Description, Tag};
use crate::http::forward::HOPS_MAX;
use crate::http::operation::Operation;
use crate::http::problem::{NotDone, Refusal};
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};

/// Declares the calls.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    routes
        .call(
            (Verb::Post, paths::ADMIN_VERIFICATIONS),
            Operation::StartVerification,
            Description::new(
                Access::CLUSTER,
                Tag::Cluster,
                "Has a region's homes verified, and shows how far that has come.",
            )
            .optional_body::<VerificationRequest>()
            .answers::<VerificationAnswer>(200)
            .refuses(&[Code::RegionNotFound, Code::HomeUnreachable]),
            start,
        )
        .call(
            (Verb::Get, paths::ADMIN_VERIFICATION),
            Operation::GetVerification,
            Description::new(
                Access::CLUSTER_READ,
                Tag::Cluster,
                "Shows how far a verification has come, and what it has found.",
            )
            .answers::<VerificationAnswer>(200)
            .refuses(&[Code::NotFound]),
            get,
        )
}

async fn start(call: Call) -> Handled {
    call.no_query()?;
    let request: VerificationRequest = call.json_or_default()?;
    let region = request.region.map_or_else(|| *call.api.region(), |region| region.0);
    if region != *call.api.region() {
        let known = call
            .api
            .regions()
            .filter(|regions| regions.links().others().any(|other| other == region));
        let unknown = || Refusal::new(Code::RegionNotFound, format!("there is no region {region}"));
        let regions = known.ok_or_else(unknown)?;
        return Err(call.to_shard(regions, region, None).await);
    }
    let verifier = call.api.verifier().ok_or_else(no_verifier)?;
    let run = verifier.begin(request.rebuild_read_model);
    let run = run.map_err(|other| Refusal::new(Code::NotReady, other.to_string()))?;
    Ok(Reply::read(&run.shown())?)
}

async fn get(call: Call) -> Handled {
    call.no_query()?;
    let id: VerificationId = call.id("verification")?;
    let node = NodeId(id.node.0);
    if node != call.api.node() {
        return Err(pass_on(&call, node).await);
    }
    let verifier = call.api.verifier().ok_or_else(no_verifier)?;
    let forgotten = || Refusal::new(Code::NotFound, "the node knows of no such verification");
    let run = verifier.find(id).ok_or_else(forgotten)?;
    Ok(Reply::read(&run.shown())?)
}

/// Has the node answer that carries the verification out.
async fn pass_on(call: &Call, node: NodeId) -> NotDone {
    let onward = call.onward(node, None).filter(|_| call.meta.hops < HOPS_MAX);
    let Some(onward) = onward else {
        return Refusal::new(Code::NotFound, "there is no such node").into();
    };
    match call.api.forwarder().relay(call, onward).await {
        Ok(response) => NotDone::Relayed(Box::new(response)),
        Err(_) => Refusal::unanswered().into(),
    }
}

fn no_verifier() -> Refusal {
    Refusal::internal("a router verifies nothing")
}
