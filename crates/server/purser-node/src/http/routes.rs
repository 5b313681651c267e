//! The table of calls: what is served, what it needs, and how it is described.
//!
//! A call is declared once. Its route, the scope and key that it needs, its metrics and its part of
//! the API's description all come from that one declaration, so none of them can be forgotten.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use hyper::header::HeaderValue;
use utoipa::openapi::path::{HttpMethod, PathItem};

use crate::http::Api;
use crate::http::admission::skip_body;
use crate::http::call::{Call, Meta, REQUEST_ID};
use crate::http::describe::Description;
use crate::http::operation::Operation;
use crate::http::problem::{NotDone, Refusal, problem_response};
use crate::http::reply::{Reply, mark_decided};
use crate::metrics::{NodeMetrics, OperationMetrics, RequestOutcome};
use crate::token::Scope;

/// What a call needs, and what it may do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    /// The scope.
    pub(crate) scope: Scope,
    /// Whether it needs an idempotency key.
    pub(crate) keyed: bool,
    /// Whether it needs a token that reaches all tenants.
    pub(crate) all_tenants: bool,
    /// Whether it may change something.
    pub(crate) effect: Effect,
}

/// Whether a call may change something. One that does not may be sent anywhere, any number of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It changes nothing.
    None,
    /// It may change something.
    Change,
}

impl Access {
    /// A read of the data plane.
    pub(crate) const READ: Self =
        Self { scope: Scope::Read, keyed: false, all_tenants: false, effect: Effect::None };
    /// A question of the data plane that changes nothing.
    pub(crate) const ASK: Self = Self { scope: Scope::Spend, ..Self::READ };
    /// A change on the data plane.
    pub(crate) const SPEND: Self = Self { keyed: true, effect: Effect::Change, ..Self::ASK };
    /// Changes on the data plane that bring their own keys.
    pub(crate) const SPEND_EACH: Self = Self { keyed: false, ..Self::SPEND };
    /// A read of the admin API.
    pub(crate) const ADMIN_READ: Self = Self { scope: Scope::Admin, ..Self::READ };
    /// A change on the admin API.
    pub(crate) const ADMIN: Self = Self { keyed: true, effect: Effect::Change, ..Self::ADMIN_READ };
    /// A change on the admin API that says what shall be: a repeat changes nothing, and needs no key.
    pub(crate) const ADMIN_STATE: Self = Self { effect: Effect::Change, ..Self::ADMIN_READ };
    /// A read of what concerns all tenants.
    pub(crate) const CLUSTER_READ: Self = Self { all_tenants: true, ..Self::ADMIN_READ };
    /// A change of what concerns all tenants: a statement of what shall be, without a key.
    pub(crate) const CLUSTER: Self = Self { effect: Effect::Change, ..Self::CLUSTER_READ };
}

/// Where a call is served.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Verb {
    /// `GET`.
    Get,
    /// `POST`.
    Post,
    /// `PUT`.
    Put,
    /// `DELETE`.
    Delete,
}

/// The calls declared so far.
pub(crate) struct Routes<'a> {
    metrics: &'a NodeMetrics,
    router: Router<Arc<Api>>,
    paths: BTreeMap<&'static str, PathItem>,
    schemas: Schemas,
}

/// Named schemas that descriptions refer to.
pub(crate) type Schemas = Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::schema::Schema>)>;

/// What a request is answered with once it has been read.
pub(crate) type Handled = Result<Reply, NotDone>;

impl<'a> Routes<'a> {
    /// No calls yet.
    pub(crate) fn new(metrics: &'a NodeMetrics) -> Self {
        Self { metrics, router: Router::new(), paths: BTreeMap::new(), schemas: Vec::new() }
    }

    /// Declares a call.
    pub(crate) fn call<F, Fut>(
        mut self,
        (verb, path): (Verb, &'static str),
        operation: Operation,
        description: Description,
        handler: F,
    ) -> Self
    where
        F: Fn(Call) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Handled> + Send + 'static,
    {
        let metrics = self.metrics.operation(operation);
        let route = Arc::new(Route { operation, access: description.access(), metrics });
        let serve = move |State(api): State<Arc<Api>>, request: Request| {
            run(api, Arc::clone(&route), handler.clone(), request)
        };
        self.router = self.router.route(path, on(verb.filter(), serve));
        let described = description.describe(operation, path, &mut self.schemas);
        let item = PathItem::new(verb.http_method(), described);
        self.paths.entry(path).or_default().merge_operations(item);
        self
    }

    /// The router of all calls.
    pub(crate) fn into_router(self) -> Router<Arc<Api>> {
        self.router
    }

    /// The descriptions of all calls, and the schemas that they name.
    pub(crate) fn into_descriptions(self) -> (BTreeMap<&'static str, PathItem>, Schemas) {
        (self.paths, self.schemas)
    }
}

impl Verb {
    const fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Put => MethodFilter::PUT,
            Self::Delete => MethodFilter::DELETE,
        }
    }

    const fn http_method(self) -> HttpMethod {
        match self {
            Self::Get => HttpMethod::Get,
            Self::Post => HttpMethod::Post,
            Self::Put => HttpMethod::Put,
            Self::Delete => HttpMethod::Delete,
        }
    }
}

/// What all requests of a call have in common.
struct Route {
    operation: Operation,
    access: Access,
    metrics: OperationMetrics,
}

/// Serves one request.
async fn run<F, Fut>(api: Arc<Api>, route: Arc<Route>, handler: F, request: Request) -> Response
where
    F: Fn(Call) -> Fut,
    Fut: Future<Output = Handled>,
{
    let meta = Meta::of(request.headers(), api.request_ids(), api.limits().request);
    let handled = match Call::read(Arc::clone(&api), route.access, meta.clone(), request).await {
        Ok(call) if !call.api.groups().are_open() => Err(Refusal::restored().into()),
        Ok(call) if call.api.is_router() => Err(call.pass_through(route.operation).await),
        Ok(mut call) => match call.take_seat(route.operation).await {
            Ok(()) => handler(call).await,
            Err(not_done) => Err(not_done),
        },
        Err(refusal) => Err(refusal.into()),
    };
    let (mut response, outcome, decision) = match handled {
        Ok(reply) => {
            let decision = reply.decision();
            (reply.into_response(), RequestOutcome::Done, decision)
        }
        Err(NotDone::Refused(refusal)) => {
            let outcome = RequestOutcome::of_status(refusal.code().status());
            let decision = refusal.decision();
            (refused(refusal, &meta), outcome, decision)
        }
        Err(NotDone::Relayed(response)) => (*response, RequestOutcome::Relayed, None),
    };
    if let Some(decided) = decision {
        mark_decided(&mut response, &decided);
        if decided.replayed {
            route.metrics.record_replay();
        }
    }
    let status = response.status().as_u16();
    let elapsed = meta.received.elapsed();
    route.metrics.record_request(outcome, elapsed);
    let (operation, request_id) = (route.operation.name(), &*meta.request_id);
    tracing::debug!(operation, request_id, status, ?elapsed, "request answered");
    name(&mut response, &meta);
    response
}

/// The answer to what no call serves.
pub(crate) async fn no_such_path(State(api): State<Arc<Api>>, request: Request) -> Response {
    let detail = "no call has this path; /openapi.json lists those that there are";
    let code = purser_api::ProblemCode::NotFound;
    answer_unread(&api, request, Refusal::new(code, detail)).await
}

/// The answer to a method that the path does not have.
pub(crate) async fn no_such_method(State(api): State<Arc<Api>>, request: Request) -> Response {
    let detail = "the path has no such method; the Allow header lists those that there are";
    let code = purser_api::ProblemCode::MethodNotAllowed;
    answer_unread(&api, request, Refusal::new(code, detail)).await
}

async fn answer_unread(api: &Api, request: Request, refusal: Refusal) -> Response {
    let (parts, body) = request.into_parts();
    let meta = Meta::of(&parts.headers, api.request_ids(), api.limits().request);
    skip_body(&parts.headers, body, meta.deadline).await;
    let mut response = refused(refusal, &meta);
    name(&mut response, &meta);
    response
}

fn refused(refusal: Refusal, meta: &Meta) -> Response {
    problem_response(&refusal.into_problem(&meta.request_id))
}

/// Tells the caller by what name to ask about the request.
fn name(response: &mut Response, meta: &Meta) {
    let request_id = HeaderValue::from_str(&meta.request_id);
    let request_id = request_id.expect("a request's id is made of plain characters");
    response.headers_mut().insert(REQUEST_ID, request_id);
}
