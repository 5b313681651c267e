//! What every node tells everybody: whether it lives, whether it serves, its numbers, its API.
//!
//! Open to all who reach the port: probes and collectors rarely have tokens, and nothing here says
//! anything about a tenant.

use std::fmt::Write;
use std::sync::{Arc, LazyLock};

use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{self, HeaderValue};

use crate::groups::is_ready;
use crate::http::Api;
use crate::http::openapi::openapi_document;

/// Whether the process runs. It looks at nothing: what a restart would not mend is not its affair.
pub(crate) async fn livez() -> &'static str {
    "ok\n"
}

/// Whether the node serves: every group knows its leader and this node has caught up, and if it was
/// restored from a backup they have begun another life. A router serves
/// when it knows who is home of whom and hears its region.
pub(crate) async fn readyz(State(api): State<Arc<Api>>, RawQuery(query): RawQuery) -> Response {
    let statuses = api.groups().all().iter().map(|group| (group.id(), group.status()));
    let statuses: Vec<_> = statuses.collect();
    let draining = api.is_draining();
    let has_way = !api.is_router() || api.regions().is_some_and(|regions| regions.are_known());
    let is_open = api.groups().are_open();
    let ready =
        !draining && is_open && has_way && statuses.iter().all(|(_, status)| is_ready(status));
    let mut body = String::from(match (draining, ready) {
        (true, _) => "shutting down\n",
        (false, true) => "ok\n",
        (false, false) if !is_open => {
            "restored from a backup, and its groups have not begun anew\n"
        }
        (false, false) => "not ready\n",
    });
    if query.as_deref() == Some("verbose") {
        for (group, status) in statuses {
            let state = if is_ready(&status) { "ok" } else { "not ready" };
            let leader = status.leader.map_or_else(|| "nobody".to_owned(), |node| node.to_string());
            let applied = status.applied_index.map_or(0, |index| index.saturating_add(1));
            let committed = status.committed_index.map_or(0, |index| index.saturating_add(1));
            let written = writeln!(
                body,
                "group {group}: {state}, leader {leader}, applied {applied} of {committed} entries"
            );
            written.expect("writing to memory cannot fail");
        }
    }
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, body).into_response()
}

/// The process's numbers, in the format of Prometheus.
pub(crate) async fn metrics(State(api): State<Arc<Api>>) -> Response {
    match api.recorder() {
        Some(recorder) => {
            let format = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
            ([(header::CONTENT_TYPE, format)], recorder.render()).into_response()
        }
        None => (StatusCode::NOT_FOUND, "this process collects no metrics\n").into_response(),
    }
}

/// The API's description.
pub(crate) async fn openapi() -> Response {
    static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| {
        let document = serde_json::to_vec(&openapi_document());
        Bytes::from(document.expect("a description is made of texts and numbers"))
    });
    let format = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, format)], DOCUMENT.clone()).into_response()
}
