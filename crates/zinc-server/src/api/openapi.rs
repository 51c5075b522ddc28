//! `GET /openapi.json`: the paths, what their bodies are, and which statuses they have.

use std::sync::LazyLock;

use axum::Json;
use utoipa::ToSchema;
use utoipa::openapi::path::{HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{AllOfBuilder, ComponentsBuilder, ObjectBuilder, Schema, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ContentBuilder, InfoBuilder, OpenApi, OpenApiBuilder, PathsBuilder, Ref, RefOr, Required, ResponseBuilder,
};

use super::{SamplingFields, anthropic, llama, ollama, openai};
use crate::version::VERSION;

/// Statuses of paths that answer requests.
const ANSWERED: &[u16] = &[200, 400, 401, 403, 408, 413, 500, 501, 503];
/// Statuses of paths that tell something of the model.
const TOLD: &[u16] = &[200, 400, 401, 403, 404, 408, 413, 500, 503];

/// The schema of a body, with those that it refers to.
struct Body {
    schema: RefOr<Schema>,
    referred: Vec<(String, RefOr<Schema>)>,
}

/// The body that is one struct.
fn one<T: ToSchema>() -> Body {
    let mut referred = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut referred);
    Body { schema: Ref::from_schema_name(T::name()).into(), referred }
}

/// The body that has the fields of a struct and those of sampling.
fn sampled<T: ToSchema>() -> Body {
    let (own, sampling) = (one::<T>(), one::<SamplingFields>());
    let both = AllOfBuilder::new().item(own.schema).item(sampling.schema).build();
    Body { schema: Schema::AllOf(both).into(), referred: own.referred.into_iter().chain(sampling.referred).collect() }
}

/// A path: its method, what it is for, its body and its statuses.
type Path = (HttpMethod, &'static str, &'static str, Option<fn() -> Body>, &'static [u16]);

const PATHS: &[Path] = &[
    (
        HttpMethod::Post,
        "/v1/chat/completions",
        "Answer a conversation",
        Some(sampled::<openai::chat::ChatFields>),
        ANSWERED,
    ),
    (
        HttpMethod::Post,
        "/v1/completions",
        "Continue texts",
        Some(sampled::<openai::completions::CompletionFields>),
        ANSWERED,
    ),
    (
        HttpMethod::Post,
        "/v1/responses",
        "Answer a conversation",
        Some(sampled::<openai::responses::ResponsesFields>),
        ANSWERED,
    ),
    (
        HttpMethod::Post,
        "/v1/responses/input_tokens",
        "Count the tokens of a conversation",
        Some(sampled::<openai::responses::ResponsesFields>),
        TOLD,
    ),
    (HttpMethod::Get, "/v1/responses/{id}", "Say that no response is stored", None, TOLD),
    (
        HttpMethod::Post,
        "/v1/messages",
        "Answer a conversation",
        Some(sampled::<anthropic::messages::MessagesFields>),
        ANSWERED,
    ),
    (
        HttpMethod::Post,
        "/v1/messages/count_tokens",
        "Count the tokens of a conversation",
        Some(sampled::<anthropic::messages::MessagesFields>),
        TOLD,
    ),
    (HttpMethod::Get, "/v1/models", "List the model", None, TOLD),
    (HttpMethod::Get, "/v1/models/{id}", "Describe the model", None, TOLD),
    (
        HttpMethod::Post,
        "/completion",
        "Continue a text",
        Some(sampled::<llama::completion::CompletionFields>),
        ANSWERED,
    ),
    (HttpMethod::Post, "/infill", "Fill in a gap", Some(sampled::<llama::infill::InfillFields>), ANSWERED),
    (HttpMethod::Post, "/tokenize", "Turn a text into tokens", Some(one::<llama::text::TokenizeFields>), TOLD),
    (HttpMethod::Post, "/detokenize", "Turn tokens into text", Some(one::<llama::text::DetokenizeFields>), TOLD),
    (
        HttpMethod::Post,
        "/apply-template",
        "Show the prompt of a conversation",
        Some(one::<openai::chat::ChatFields>),
        TOLD,
    ),
    (HttpMethod::Get, "/props", "Describe the server", None, TOLD),
    (HttpMethod::Get, "/slots", "Show what the lanes are doing", None, TOLD),
    (HttpMethod::Get, "/health", "Say whether requests can be answered", None, TOLD),
    (HttpMethod::Get, "/live", "Say whether the server is of any use", None, TOLD),
    (HttpMethod::Get, "/metrics", "Figures for Prometheus", None, TOLD),
    (HttpMethod::Get, "/api/version", "The version of ollama's API", None, TOLD),
    (HttpMethod::Get, "/api/tags", "List the model", None, TOLD),
    (HttpMethod::Get, "/api/ps", "List the model", None, TOLD),
    (HttpMethod::Post, "/api/show", "Describe the model", Some(one::<ollama::info::ShowFields>), TOLD),
    (HttpMethod::Post, "/api/chat", "Answer a conversation", Some(one::<ollama::chat::ChatFields>), ANSWERED),
    (HttpMethod::Post, "/api/generate", "Answer a prompt", Some(one::<ollama::generate::GenerateFields>), ANSWERED),
];

/// `GET /openapi.json`.
pub(super) async fn document() -> Json<&'static OpenApi> {
    static DOCUMENT: LazyLock<OpenApi> = LazyLock::new(made);
    Json(&DOCUMENT)
}

fn made() -> OpenApi {
    let mut components = ComponentsBuilder::new();
    let mut paths = PathsBuilder::new();
    for (method, path, summary, body, statuses) in PATHS {
        let mut operation = OperationBuilder::new().summary(Some(*summary));
        if path.contains("{id}") {
            let text = ObjectBuilder::new().schema_type(Type::String).build();
            let id = ParameterBuilder::new().name("id").parameter_in(ParameterIn::Path).required(Required::True);
            operation = operation.parameter(id.schema(Some(Schema::Object(text))));
        }
        if let Some(body) = body {
            let Body { schema, referred } = body();
            components = components.schemas_from_iter(referred);
            let content = ContentBuilder::new().schema(Some(schema)).build();
            let body = RequestBodyBuilder::new().content("application/json", content).required(Some(Required::True));
            operation = operation.request_body(Some(body.build()));
        }
        for status in *statuses {
            let what = axum::http::StatusCode::from_u16(*status).ok().and_then(|status| status.canonical_reason());
            let response = ResponseBuilder::new().description(what.unwrap_or_default()).build();
            operation = operation.response(status.to_string(), response);
        }
        paths = paths.path(*path, PathItem::new(method.clone(), operation));
    }
    let key = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    let components = components.security_scheme("key", key).build();
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("zinc")
                .version(VERSION)
                .description(Some("A language model on your own GPU."))
                .build(),
        )
        .paths(paths.build())
        .components(Some(components))
        // Without keys none is needed.
        .security(Some([SecurityRequirement::default(), SecurityRequirement::new("key", [""; 0])]))
        .build()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_reference_leads_somewhere() {
        let document = serde_json::to_value(made()).unwrap();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let mut values = vec![&document];
        let mut references = 0;
        while let Some(value) = values.pop() {
            match value {
                Value::Object(members) => {
                    if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
                        let name = reference.rsplit('/').next().unwrap();
                        assert!(schemas.contains_key(name), "{reference}");
                        references += 1;
                    }
                    values.extend(members.values());
                }
                Value::Array(items) => values.extend(items),
                _ => {}
            }
        }
        assert!(references > 20 && document["paths"].as_object().unwrap().len() == PATHS.len(), "{references}");
    }
}
