//! `GET /props` and `/slots`: what the server is and what it is doing.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use axum::Json;
use axum::extract::{Query, State as Shared};
use serde::{Deserialize, Serialize};
use zinc_engine::AnswerOptions;
use zinc_sched::{LastTokens, Sampling};

use crate::error::{ApiError, ApiResult, RETRY_AFTER_S};
use crate::state::State;
use crate::version::{FINGERPRINT, VERSION};

/// What the server is.
#[derive(Debug, Serialize)]
pub struct PropsReply {
    default_generation_settings: DefaultSettings,
    total_slots: u32,
    model_alias: String,
    /// Clients look for it; it is the alias, since paths are nobody's business.
    model_path: String,
    chat_template: String,
    chat_template_caps: TemplateCaps,
    modalities: Modalities,
    bos_token: String,
    eos_token: String,
    build_info: &'static str,
    system_fingerprint: &'static str,
    device: String,
    is_sleeping: bool,
}

#[derive(Debug, Serialize)]
struct DefaultSettings {
    n_ctx: u32,
    params: SettingsReply<'static>,
}

/// What a chat template can do, as far as its text tells.
#[derive(Debug, Serialize)]
struct TemplateCaps {
    supports_tools: bool,
    supports_tool_calls: bool,
    supports_system_role: bool,
    supports_parallel_tool_calls: bool,
    supports_enable_thinking: bool,
}

#[derive(Debug, Serialize)]
struct Modalities {
    vision: bool,
    audio: bool,
}

/// How an answer is chosen, by llama.cpp's names.
#[derive(Debug, Serialize)]
pub struct SettingsReply<'a> {
    n_predict: i64,
    seed: u64,
    temperature: f32,
    top_k: u32,
    top_p: f32,
    min_p: f32,
    typical_p: f32,
    top_n_sigma: f32,
    xtc_probability: f32,
    xtc_threshold: f32,
    repeat_last_n: i64,
    repeat_penalty: f32,
    presence_penalty: f32,
    frequency_penalty: f32,
    dry_multiplier: f32,
    dry_base: f32,
    dry_allowed_length: u32,
    dry_penalty_last_n: i64,
    dry_sequence_breakers: std::borrow::Cow<'a, [String]>,
}

impl<'a> SettingsReply<'a> {
    /// The settings that options are.
    #[must_use]
    pub fn new(options: &'a AnswerOptions) -> Self {
        let Sampling { temperature, seed, top_k, top_p, min_p, typical_p, top_n_sigma, .. } = options.sampling;
        let last = |last: LastTokens| match last {
            LastTokens::Count(count) => i64::from(count),
            LastTokens::All => -1,
        };
        let Sampling { xtc, penalties, dry, .. } = &options.sampling;
        let dry = dry.as_ref();
        Self {
            n_predict: options.max_tokens.map_or(-1, i64::from),
            seed,
            temperature,
            top_k,
            top_p,
            min_p,
            typical_p,
            top_n_sigma,
            xtc_probability: xtc.probability,
            xtc_threshold: xtc.threshold,
            repeat_last_n: last(penalties.last_n),
            repeat_penalty: penalties.repeat,
            presence_penalty: penalties.presence,
            frequency_penalty: penalties.frequency,
            dry_multiplier: dry.map_or(0.0, |dry| dry.multiplier),
            dry_base: dry.map_or(1.75, |dry| dry.base),
            dry_allowed_length: dry.map_or(2, |dry| dry.allowed_length),
            dry_penalty_last_n: dry.map_or(-1, |dry| last(dry.last_n)),
            dry_sequence_breakers: options.breakers.as_slice().into(),
        }
    }

    fn owned(self) -> SettingsReply<'static> {
        SettingsReply { dry_sequence_breakers: self.dry_sequence_breakers.into_owned().into(), ..self }
    }
}

/// `GET /props`.
///
/// # Errors
/// 503 while the model loads.
pub async fn props(Shared(state): Shared<Arc<State>>) -> ApiResult<Json<PropsReply>> {
    let served = state.served()?;
    let facts = served.backend.facts();
    let template = facts.template.clone().unwrap_or_default();
    let has = |word: &str| template.contains(word);
    let caps = TemplateCaps {
        supports_tools: has("tools"),
        supports_tool_calls: has("tool_calls"),
        supports_system_role: has("system"),
        supports_parallel_tool_calls: has("tool_calls"),
        supports_enable_thinking: has("enable_thinking"),
    };
    let params = SettingsReply::new(&state.options.defaults).owned();
    Ok(Json(PropsReply {
        default_generation_settings: DefaultSettings { n_ctx: facts.context_tokens, params },
        total_slots: facts.lanes,
        model_alias: served.alias.clone(),
        model_path: served.alias.clone(),
        chat_template_caps: caps,
        chat_template: template,
        modalities: Modalities { vision: false, audio: false },
        bos_token: facts.bos.clone(),
        eos_token: facts.eos.clone(),
        build_info: VERSION,
        system_fingerprint: FINGERPRINT,
        device: facts.device.clone(),
        is_sleeping: false,
    }))
}

/// What a lane is doing.
#[derive(Debug, Serialize)]
pub struct SlotReply {
    id: u32,
    n_ctx: u32,
    speculative: bool,
    is_processing: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    id_task: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n_prompt_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n_decoded: Option<u32>,
}

/// The query of `/slots`.
#[derive(Debug, Default, Deserialize)]
pub struct SlotsQuery {
    #[serde(default)]
    fail_on_no_slot: Option<String>,
}

/// `GET /slots`: the lanes. Which request is in which lane is not known; those that run are shown in the first ones.
///
/// # Errors
/// 503 while the model loads, or with `fail_on_no_slot` if no lane is free.
pub async fn slots(
    Shared(state): Shared<Arc<State>>,
    Query(query): Query<SlotsQuery>,
) -> ApiResult<Json<Vec<SlotReply>>> {
    let served = state.served()?;
    let facts = served.backend.facts();
    let running = served.backend.status().running;
    let is_asked = query.fail_on_no_slot.is_some_and(|value| value != "0");
    if is_asked && running >= facts.lanes as usize {
        return Err(ApiError::unavailable("no slot available", RETRY_AFTER_S));
    }
    let mut active = state.active().into_iter().filter(|active| active.has_begun.load(Relaxed));
    let slot = |id: u32| {
        let active = active.next();
        SlotReply {
            id,
            n_ctx: facts.context_tokens,
            speculative: false,
            is_processing: (id as usize) < running,
            id_task: active.as_ref().map(|active| active.id),
            n_prompt_tokens: active.as_ref().map(|active| active.prompt_tokens),
            n_decoded: active.as_ref().map(|active| active.tokens.load(Relaxed)),
        }
    };
    Ok(Json((0..facts.lanes).map(slot).collect()))
}
