//! Checks of the library `async-openai`, whose types are stricter than those of most clients, against zinc's scripted model.

use std::time::Duration;

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::error::OpenAIError;
use async_openai::types::chat::{ChatCompletionMessageToolCalls, CreateChatCompletionRequest, FinishReason};
use async_openai::types::responses::{CreateResponse, OutputItem, ResponseStreamEvent, TokenCountsBody};
use futures::StreamExt as _;
use serde_json::{Value, json};

/// What the script has for the words "Hi" and "think", and for the result of a tool.
const HELLO: &str = "Grüße from zinc, twice: Hi";
const ANSWER: &str = "It is 42.";
const THOUGHT: &str = "Six times seven.";
const RAIN: &str = "It rains in Ülm.";

/// The longest wait for anything. It is far more than that takes.
const PATIENCE: Duration = Duration::from_secs(20);

type Outcome = Result<(), Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let variable = |name| std::env::var(name).map_err(|_| format!("{name} is not set"));
    let (url, key) = (variable("ZINC_URL")?, variable("ZINC_KEY")?);
    let client =
        |key: &str| Client::with_config(OpenAIConfig::new().with_api_base(format!("{url}/v1")).with_api_key(key));
    let own = client(&key);
    let checks = async {
        chat(&own).await?;
        chat_streamed(&own).await?;
        chat_tool(&own).await?;
        errors(&own, &client("wrong")).await?;
        leaving(&own).await?;
        responses(&own).await?;
        responses_streamed(&own).await?;
        responses_tool(&own).await
    };
    tokio::time::timeout(PATIENCE * 3, checks).await??;
    println!("async-openai: 8 of 8 checks passed");
    Ok(())
}

fn chat_request(fields: Value) -> Result<CreateChatCompletionRequest, serde_json::Error> {
    let mut request = json!({ "model": "zinc" });
    for (name, value) in fields.as_object().into_iter().flatten() {
        request[name] = value.clone();
    }
    serde_json::from_value(request)
}

fn response_request(fields: Value) -> Result<CreateResponse, serde_json::Error> {
    serde_json::from_value(fields)
}

fn user(text: &str) -> Value {
    json!([{ "role": "user", "content": text }])
}

fn parameters() -> Value {
    let properties = json!({ "city": { "type": "string" }, "days": { "type": "integer" } });
    json!({ "type": "object", "properties": properties, "required": ["city", "days"] })
}

fn arguments() -> Value {
    json!({ "city": "Ulm", "days": 3 })
}

async fn chat(client: &Client<OpenAIConfig>) -> Outcome {
    let reply = client.chat().create(chat_request(json!({ "messages": user("Hi") }))?).await?;
    assert_eq!(reply.choices[0].message.content.as_deref(), Some(HELLO));
    assert_eq!(reply.choices[0].finish_reason, Some(FinishReason::Stop));
    let usage = reply.usage.ok_or("no usage")?;
    assert!(usage.prompt_tokens > 0 && usage.total_tokens == usage.prompt_tokens + usage.completion_tokens);
    Ok(())
}

async fn chat_streamed(client: &Client<OpenAIConfig>) -> Outcome {
    let asked = json!({ "messages": user("Hi"), "stream_options": { "include_usage": true } });
    let mut stream = client.chat().create_stream(chat_request(asked)?).await?;
    let (mut text, mut usage) = (String::new(), None);
    while let Some(chunk) = stream.next().await {
        let chunk = chunk?;
        usage = usage.or(chunk.usage);
        for choice in chunk.choices {
            text.push_str(choice.delta.content.as_deref().unwrap_or_default());
        }
    }
    assert_eq!(text, HELLO);
    assert!(usage.is_some_and(|usage| usage.completion_tokens > 0));
    Ok(())
}

async fn chat_tool(client: &Client<OpenAIConfig>) -> Outcome {
    let tools = json!([{ "type": "function", "function": { "name": "weather", "parameters": parameters() } }]);
    let asked = json!({ "messages": user("weather"), "tools": tools });
    let reply = client.chat().create(chat_request(asked)?).await?;
    let calls = reply.choices[0].message.tool_calls.as_deref().unwrap_or_default();
    let [ChatCompletionMessageToolCalls::Function(call)] = calls else { return Err(format!("{calls:?}").into()) };
    assert_eq!(serde_json::from_str::<Value>(&call.function.arguments)?, arguments());
    let mut messages = user("weather");
    let result = json!({ "role": "tool", "tool_call_id": call.id, "content": "rain" });
    messages.as_array_mut().ok_or("no list")?.extend([serde_json::to_value(&reply.choices[0].message)?, result]);
    let reply = client.chat().create(chat_request(json!({ "messages": messages, "tools": tools }))?).await?;
    assert_eq!(reply.choices[0].message.content.as_deref(), Some(RAIN));
    Ok(())
}

async fn errors(client: &Client<OpenAIConfig>, stranger: &Client<OpenAIConfig>) -> Outcome {
    let wrong = client.chat().create(chat_request(json!({ "messages": user("Hi"), "temperature": -1.0 }))?).await;
    let Err(OpenAIError::ApiError(error)) = wrong else { return Err(format!("{wrong:?}").into()) };
    assert_eq!((error.status_code.as_u16(), error.api_error.param.as_deref()), (400, Some("temperature")));
    let none = client.models().retrieve("none").await;
    let Err(OpenAIError::ApiError(error)) = none else { return Err(format!("{none:?}").into()) };
    assert_eq!((error.status_code.as_u16(), error.api_error.code.as_deref()), (404, Some("model_not_found")));
    let refused = stranger.models().list().await;
    let Err(OpenAIError::ApiError(error)) = refused else { return Err(format!("{refused:?}").into()) };
    assert_eq!(error.status_code.as_u16(), 401);
    assert_eq!(client.models().list().await?.data[0].id, "zinc");
    Ok(())
}

/// The answer to "endless" keeps its lane until its client leaves, and there are eight lanes.
async fn leaving(client: &Client<OpenAIConfig>) -> Outcome {
    for _ in 0..10 {
        let mut stream = client.chat().create_stream(chat_request(json!({ "messages": user("endless") }))?).await?;
        // Comes once the answer has a lane.
        let first = tokio::time::timeout(PATIENCE, stream.next()).await?;
        first.ok_or("the stream has ended")??;
    }
    Ok(())
}

async fn responses(client: &Client<OpenAIConfig>) -> Outcome {
    let reply = client.responses().create(response_request(json!({ "model": "zinc", "input": "Hi" }))?).await?;
    assert_eq!(reply.output_text().as_deref(), Some(HELLO));
    let asked: TokenCountsBody = serde_json::from_value(json!({ "model": "zinc", "input": "Hi" }))?;
    let counted = client.responses().get_input_token_counts(asked).await?;
    assert_eq!(Some(counted.input_tokens), reply.usage.map(|usage| usage.input_tokens));
    Ok(())
}

async fn responses_streamed(client: &Client<OpenAIConfig>) -> Outcome {
    let asked = response_request(json!({ "model": "zinc", "input": "think" }))?;
    let mut stream = client.responses().create_stream(asked).await?;
    let (mut text, mut thought, mut whole) = (String::new(), String::new(), None);
    while let Some(event) = stream.next().await {
        match event? {
            ResponseStreamEvent::ResponseOutputTextDelta(event) => text.push_str(&event.delta),
            ResponseStreamEvent::ResponseReasoningTextDelta(event) => thought.push_str(&event.delta),
            ResponseStreamEvent::ResponseCompleted(event) => whole = Some(event.response),
            _ => {}
        }
    }
    assert_eq!((text.as_str(), thought.as_str()), (ANSWER, THOUGHT));
    assert_eq!(whole.ok_or("no end")?.output_text().as_deref(), Some(ANSWER));
    Ok(())
}

async fn responses_tool(client: &Client<OpenAIConfig>) -> Outcome {
    let tools = json!([{ "type": "function", "name": "weather", "parameters": parameters(), "strict": false }]);
    let mut input = user("weather");
    let asked = json!({ "model": "zinc", "input": input, "tools": tools });
    let reply = client.responses().create(response_request(asked)?).await?;
    let call = reply.output.iter().find_map(|item| match item {
        OutputItem::FunctionCall(call) => Some(call),
        _ => None,
    });
    let call = call.ok_or_else(|| format!("{:?}", reply.output))?;
    assert_eq!(serde_json::from_str::<Value>(&call.arguments)?, arguments());
    let items = input.as_array_mut().ok_or("no list")?;
    for item in &reply.output {
        items.push(serde_json::to_value(item)?);
    }
    items.push(json!({ "type": "function_call_output", "call_id": call.call_id, "output": "rain" }));
    let asked = json!({ "model": "zinc", "input": input, "tools": tools });
    let reply = client.responses().create(response_request(asked)?).await?;
    assert_eq!(reply.output_text().as_deref(), Some(RAIN));
    Ok(())
}
