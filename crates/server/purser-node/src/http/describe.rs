//! The description of one call, in the terms of OpenAPI 3.1.
//!
//! A call says what it reads, what it answers and which refusals are its own. What follows from
//! that (the key's header, the parameters of the path, the refusals of every call) is added here.

use std::collections::BTreeMap;

use purser_api::{
    BudgetLabel, ChargeId, HoldId, JobName, LotId, ProblemCode, RegionName, SequenceNumber,
    TenantName, VerificationId, WebhookDeadLetterId, WebhookName, headers,
};
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{
    Operation as Described, OperationBuilder, Parameter, ParameterBuilder, ParameterIn,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{Object, ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{Content, Ref, RefOr, Required, Response};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::http::openapi::{PROBLEM_SCHEMA, SECURITY_SCHEME};
use crate::http::operation::Operation;
use crate::http::routes::{Access, Schemas};

/// What a call reads and answers.
pub(crate) struct Description {
    access: Access,
    tag: Tag,
    summary: &'static str,
    parameters: Vec<Parameter>,
    body: Option<Body>,
    answer: Answer,
    refusals: Vec<ProblemCode>,
    schemas: Schemas,
}

/// Groups calls for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tag {
    /// Spending credits.
    Spend,
    /// Jobs, queues and dead letters.
    Jobs,
    /// Reading accounts.
    Read,
    /// Tenants and their lots.
    Tenants,
    /// What is set aside for regions, and what can be overspent.
    Regions,
    /// Who is told of entries.
    Webhooks,
    /// Nodes, groups and regions.
    Cluster,
}

struct Body {
    schema: RefOr<Schema>,
    required: bool,
}

struct Answer {
    status: u16,
    schema: RefOr<Schema>,
    /// Whether it may also be 200, about what another request had made.
    finds: bool,
    aged: bool,
}

impl Answer {
    const fn new(status: u16, schema: RefOr<Schema>) -> Self {
        Self { status, schema, finds: false, aged: false }
    }
}

impl Description {
    /// A call that does what `summary` says, in one sentence.
    pub(crate) fn new(access: Access, tag: Tag, summary: &'static str) -> Self {
        let answer = Answer::new(200, Object::new().into());
        Self {
            access,
            tag,
            summary,
            parameters: Vec::new(),
            body: None,
            answer,
            refusals: Vec::new(),
            schemas: Schemas::new(),
        }
    }

    /// It reads a query.
    pub(crate) fn query<Q: IntoParams>(mut self) -> Self {
        self.parameters.extend(Q::into_params(|| Some(ParameterIn::Query)));
        self
    }

    /// It reads a body.
    pub(crate) fn body<T: ToSchema>(mut self) -> Self {
        let schema = self.named::<T>();
        self.body = Some(Body { schema, required: true });
        self
    }

    /// It reads a body that may be left out.
    pub(crate) fn optional_body<T: ToSchema>(mut self) -> Self {
        let schema = self.named::<T>();
        self.body = Some(Body { schema, required: false });
        self
    }

    /// It answers with a body.
    pub(crate) fn answers<T: ToSchema>(mut self, status: u16) -> Self {
        let schema = self.named::<T>();
        self.answer = Answer::new(status, schema);
        self
    }

    /// It answers with a page of a list.
    pub(crate) fn answers_list<T: ToSchema>(mut self) -> Self {
        self.named::<T>();
        <purser_api::List<T> as ToSchema>::schemas(&mut self.schemas);
        let schema = <purser_api::List<T> as PartialSchema>::schema();
        self.answer = Answer::new(200, schema);
        self
    }

    /// Where another request had made the same before, it answers 200 with that.
    pub(crate) fn or_finds(mut self) -> Self {
        self.answer.finds = true;
        self
    }

    /// Its answer says how old it is.
    pub(crate) fn aged(mut self) -> Self {
        self.answer.aged = true;
        self
    }

    /// It may be refused for these reasons, beside those that all calls have.
    pub(crate) fn refuses(mut self, codes: &[ProblemCode]) -> Self {
        self.refusals.extend_from_slice(codes);
        self
    }

    /// What the call needs.
    pub(crate) const fn access(&self) -> Access {
        self.access
    }

    fn named<T: ToSchema>(&mut self) -> RefOr<Schema> {
        let name = T::name().into_owned();
        self.schemas.push((name.clone(), T::schema()));
        T::schemas(&mut self.schemas);
        Ref::from_schema_name(name).into()
    }

    /// The description of the call at `path`; what it names goes to `schemas`.
    pub(crate) fn describe(
        self,
        operation: Operation,
        path: &str,
        schemas: &mut Schemas,
    ) -> Described {
        let codes = self.codes(path);
        let mut described = OperationBuilder::new()
            .operation_id(Some(operation.name()))
            .tag(self.tag.name())
            .summary(Some(self.summary))
            .security(SecurityRequirement::new(SECURITY_SCHEME, [self.access.scope.name()]));
        for parameter in path_parameters(path) {
            described = described.parameter(parameter);
        }
        if self.access.keyed {
            described = described.parameter(key_parameter());
        }
        for parameter in self.parameters {
            described = described.parameter(parameter);
        }
        if let Some(Body { schema, required }) = self.body {
            let required = if required { Required::True } else { Required::False };
            let body = RequestBodyBuilder::new()
                .content("application/json", Content::new(Some(schema)))
                .required(Some(required));
            described = described.request_body(Some(body.build()));
        }
        let answer = self.answer;
        let description = if answer.status == 201 { "Made." } else { "Done." };
        let response = success(&answer, description, self.access.keyed);
        described = described.response(answer.status.to_string(), response);
        if answer.finds {
            let description = "Another request had made it before.";
            let response = success(&answer, description, self.access.keyed);
            described = described.response("200", response);
        }
        for (status, codes) in codes {
            described = described.response(status.to_string(), problem(&codes));
        }
        schemas.extend(self.schemas);
        described.build()
    }

    /// The codes that the call may answer with, by status.
    fn codes(&self, path: &str) -> BTreeMap<u16, Vec<ProblemCode>> {
        use ProblemCode as Code;
        let mut codes = vec![
            Code::InvalidRequest,
            Code::Unauthenticated,
            Code::Forbidden,
            Code::InternalError,
            Code::NotReady,
            Code::Overloaded,
        ];
        if path.contains('{') {
            codes.push(Code::InvalidId);
        }
        if path.contains("{tenant}") {
            codes.push(Code::TenantNotFound);
        }
        if self.body.is_some() {
            codes.extend([Code::BodyIncomplete, Code::BodyTooLarge, Code::UnsupportedMediaType]);
        }
        if self.access.keyed {
            codes.extend([Code::MissingIdempotencyKey, Code::InvalidIdempotencyKey]);
            codes.extend([Code::KeyReused, Code::OutcomeUnknown]);
        }
        codes.extend_from_slice(&self.refusals);
        codes.sort_unstable();
        codes.dedup();
        let mut by_status = BTreeMap::<u16, Vec<Code>>::new();
        for code in codes {
            by_status.entry(code.status()).or_default().push(code);
        }
        by_status
    }
}

impl Tag {
    /// All tags.
    pub(crate) const ALL: [Self; 7] = [
        Self::Spend,
        Self::Jobs,
        Self::Read,
        Self::Tenants,
        Self::Regions,
        Self::Webhooks,
        Self::Cluster,
    ];

    /// The tag's name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Spend => "spend",
            Self::Jobs => "jobs",
            Self::Read => "read",
            Self::Tenants => "tenants",
            Self::Regions => "regions",
            Self::Webhooks => "webhooks",
            Self::Cluster => "cluster",
        }
    }

    /// What its calls have in common.
    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Self::Spend => "Spending credits: authorize, capture, release, charge, undo.",
            Self::Jobs => {
                "Jobs, their outcomes, the queues that workers take them from, and dead letters."
            }
            Self::Read => "Reading an account: balance, holds, lots, entries, statements.",
            Self::Tenants => "Operating accounts: open, grant, void, adjust, freeze, close.",
            Self::Regions => {
                "Operating allocations: what regions may spend, and the overspend bound."
            }
            Self::Webhooks => "Having receivers told of entries, by signed calls.",
            Self::Cluster => "Operating nodes, groups and regions.",
        }
    }
}

fn success(answer: &Answer, description: &str, decides: bool) -> Response {
    let mut response = ResponseBuilder::new()
        .description(description)
        .content("application/json", Content::new(Some(answer.schema.clone())));
    let text = || ObjectBuilder::new().schema_type(SchemaType::new(Type::String)).build();
    let mut header = |name: &str, description: &str| {
        let built = HeaderBuilder::new().schema(Some(text())).description(Some(description));
        response = std::mem::take(&mut response).header(name, built.build());
    };
    header(headers::REQUEST_ID, "Names the request in the service's logs.");
    if decides {
        header(headers::IDEMPOTENT_REPLAYED, "`true` if it was decided before, under this key.");
        header(
            headers::PURSER_DECIDED_BY,
            "Who decided: `region=NAME, role=home` or `role=allocation`.",
        );
        header(
            headers::PURSER_BOUND,
            "The account's overspend bound in credits, as whoever decided knew it; left out if it \
             did not.",
        );
    }
    if answer.aged {
        header(headers::PURSER_AGE_MS, "How old a stale read is, in milliseconds.");
    }
    response.build()
}

fn problem(codes: &[ProblemCode]) -> Response {
    let line = |code: &ProblemCode| format!("`{}`: {}.", code.name(), code.title());
    let lines: Vec<String> = codes.iter().map(line).collect();
    let schema = Ref::from_schema_name(PROBLEM_SCHEMA);
    ResponseBuilder::new()
        .description(lines.join("\n"))
        .content(purser_api::Problem::MEDIA_TYPE, Content::new(Some(schema)))
        .build()
}

fn key_parameter() -> Parameter {
    let text = ObjectBuilder::new()
        .schema_type(SchemaType::new(Type::String))
        .min_length(Some(1))
        .max_length(Some(255));
    ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .required(Required::True)
        .description(Some("Your own name for this one change: repeats do not repeat it."))
        .schema(Some(text.build()))
        .build()
}

fn path_parameters(path: &str) -> impl Iterator<Item = Parameter> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names.map(|name| {
        let number = || {
            let number = ObjectBuilder::new().schema_type(SchemaType::new(Type::Integer));
            number.minimum(Some(0)).build().into()
        };
        let (schema, description): (RefOr<Schema>, _) = match name {
            "tenant" => (TenantName::schema(), "Whose credits."),
            "hold" => (HoldId::schema(), "The hold."),
            "charge" => (ChargeId::schema(), "The charge."),
            "lot" => (LotId::schema(), "The lot."),
            "job" => (JobName::schema(), "The job."),
            "entry" => (SequenceNumber::schema(), "The entry that parked the event."),
            "budget" => (BudgetLabel::schema(), "The budget."),
            "region" => (RegionName::schema(), "The region."),
            "verification" => (VerificationId::schema(), "The verification."),
            "webhook" => (WebhookName::schema(), "The webhook."),
            "dead_letter" => (WebhookDeadLetterId::schema(), "The dead letter."),
            "group" => (number(), "The group's number."),
            _ => (number(), "The node's number."),
        };
        ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .description(Some(description))
            .schema(Some(schema))
            .build()
    })
}
