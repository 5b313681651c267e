//! The API's description, OpenAPI 3.1, made from the table of calls.

use purser_api::{Problem, paths};
use purser_raft::NodeId;
use utoipa::openapi::info::{InfoBuilder, LicenseBuilder};
use utoipa::openapi::path::{HttpMethod, OperationBuilder, PathItem, PathsBuilder};
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{ComponentsBuilder, OpenApi, OpenApiBuilder};
use utoipa::{PartialSchema, ToSchema};

use crate::http::describe::Tag;
use crate::http::routes::Routes;
use crate::metrics::NodeMetrics;

/// The name of the problem document's schema.
pub(crate) const PROBLEM_SCHEMA: &str = "Problem";
/// The name of the way to prove who asks.
pub(crate) const SECURITY_SCHEME: &str = "token";

const DESCRIPTION: &str = "Credit budgets: authorize before the work, capture after it.\n\n\
    Amounts and sequences are strings of digits in answers. Every call that changes something \
    carries an Idempotency-Key; a call that was answered with 503 or not at all is sent again with \
    the same key. 503 means that nothing happened, 504 that it is not known.";

/// The API's description, as `/openapi.json` serves it.
pub fn openapi_document() -> OpenApi {
    let metrics = NodeMetrics::new(NodeId(0));
    let routes = super::admin_routes(super::data_routes(Routes::new(&metrics)));
    let (items, schemas) = routes.into_descriptions();
    let mut paths = PathsBuilder::new();
    for (path, item) in items.into_iter().chain(open_paths()) {
        paths = paths.path(path, item);
    }
    let mut components = ComponentsBuilder::new()
        .schemas_from_iter(schemas)
        .security_scheme(SECURITY_SCHEME, security_scheme());
    let mut of_problem = vec![(PROBLEM_SCHEMA.to_owned(), Problem::schema())];
    Problem::schemas(&mut of_problem);
    components = components.schemas_from_iter(of_problem);
    let tag =
        |tag: Tag| TagBuilder::new().name(tag.name()).description(Some(tag.meaning())).build();
    let license = LicenseBuilder::new().name("Apache-2.0").identifier(Some("Apache-2.0"));
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("Purser")
                .version(env!("CARGO_PKG_VERSION"))
                .description(Some(DESCRIPTION))
                .license(Some(license.build()))
                .build(),
        )
        .paths(paths)
        .components(Some(components.build()))
        .tags(Some(Tag::ALL.map(tag)))
        .build()
}

fn security_scheme() -> SecurityScheme {
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("A token with the scope that the call names, or a larger one."));
    SecurityScheme::Http(bearer.build())
}

/// What is open to everybody.
fn open_paths() -> impl Iterator<Item = (&'static str, PathItem)> {
    let item = |(path, id, summary, answers): (_, &str, &str, &[(&str, &str)])| {
        let mut operation = OperationBuilder::new().operation_id(Some(id)).summary(Some(summary));
        for (status, description) in answers {
            let response = ResponseBuilder::new().description(*description).build();
            operation = operation.response(*status, response);
        }
        (path, PathItem::new(HttpMethod::Get, operation))
    };
    let alive = ("200", "It does.");
    let ready: &[_] = &[alive, ("503", "Not now.")];
    [
        (paths::LIVEZ, "livez", "Tells whether the process runs.", &[alive][..]),
        (paths::READYZ, "readyz", "Tells whether the node serves.", ready),
        (paths::METRICS, "metrics", "Metrics in the format of Prometheus.", &[("200", "Metrics.")]),
        (paths::OPENAPI, "openapi", "This description.", &[("200", "OpenAPI 3.1.")]),
    ]
    .map(item)
    .into_iter()
}
