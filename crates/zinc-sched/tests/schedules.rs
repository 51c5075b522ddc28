//! Random conversations on one engine against a reference that has no window, no cache and no device.

mod support;

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use support::{depth, ids};
use zinc_sched::fake::{FakeModel, FakeOptions, next_token};
use zinc_sched::{
    CancelHandle, Control, Engine, EngineOptions, FinishReason, ManualClock, ModelLimits, Outlet, Request, Sampling,
    Token, Tracing,
};

/// Few ids, so that prompts share prefixes and ends come early.
const VOCABULARY: u32 = 5;
const CONTEXT: u32 = 24;

#[derive(Debug, Clone)]
enum Cut {
    Nothing,
    InWait(u64),
    AfterTokens(usize),
}

#[derive(Debug, Clone)]
struct Turn {
    /// How many tokens of the conversation so far the prompt repeats.
    repeat: usize,
    fresh: Vec<u32>,
    max_tokens: Option<u32>,
    eog: Vec<u32>,
    sampling: Sampling,
    cut: Cut,
}

fn turn() -> impl Strategy<Value = Turn> {
    let cut = prop_oneof![
        2 => Just(Cut::Nothing),
        1 => (0_u64..30).prop_map(Cut::InWait),
        1 => (0_usize..10).prop_map(Cut::AfterTokens),
    ];
    let sampling = prop_oneof![Just(Sampling::GREEDY), (0_u64..3).prop_map(|seed| Sampling::new(0.7, seed).unwrap())];
    (
        0_usize..CONTEXT as usize,
        prop::collection::vec(0..VOCABULARY, 1..5),
        prop::option::of(0_u32..20),
        prop::collection::vec(0..VOCABULARY, 0..3),
        sampling,
        cut,
    )
        .prop_map(|(repeat, fresh, max_tokens, eog, sampling, cut)| Turn {
            repeat,
            fresh,
            max_tokens,
            eog,
            sampling,
            cut,
        })
}

/// What an uncut request delivers, and why it ends.
fn reference(request: &Request) -> (Vec<u32>, FinishReason) {
    let mut history = request.prompt.clone();
    let mut delivered = Vec::new();
    loop {
        if request.max_tokens == Some(delivered.len() as u32) {
            return (delivered, FinishReason::Length);
        }
        if history.len() > CONTEXT as usize {
            return (delivered, FinishReason::ContextFull);
        }
        let token = next_token(&history, &request.sampling, VOCABULARY);
        if request.eog.contains(&token) {
            return (delivered, FinishReason::Stop { token });
        }
        history.push(token);
        delivered.push(token);
    }
}

struct Scheduled {
    tokens: Vec<Token>,
    cancel: CancelHandle,
    most: usize,
}

impl Outlet for Scheduled {
    fn token(&mut self, token: Token) -> ControlFlow<()> {
        if self.tokens.len() == self.most {
            return ControlFlow::Break(());
        }
        self.tokens.push(token);
        ControlFlow::Continue(())
    }

    fn cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn any_conversation_matches_the_reference(
        k in 1_u32..=8,
        turns in prop::collection::vec(turn(), 1..8),
        step_us in 1_u64..50,
        no_op_us in 0_u64..5,
        submit_us in 0_u64..20,
        host_work_us in 0_u64..60,
        eog_slots in 0_usize..3,
    ) {
        let clock = ManualClock::new();
        let limits = ModelLimits { context_tokens: CONTEXT, vocabulary_tokens: VOCABULARY, ring_slots: k, drafts: 0 };
        let fake = FakeOptions {
            limits,
            eog_slots,
            step: Duration::from_micros(step_us),
            no_op: Duration::from_micros(no_op_us),
            submit: Duration::from_micros(submit_us),
            ..FakeOptions::default()
        };
        let alarm: Arc<Mutex<Option<(u64, CancelHandle)>>> = Arc::default();
        let hook = {
            let alarm = Arc::clone(&alarm);
            move |_| {
                if let Some((waits_left, cancel)) = &mut *alarm.lock().unwrap() {
                    if *waits_left == 0 {
                        cancel.cancel();
                    }
                    *waits_left = waits_left.saturating_sub(1);
                }
            }
        };
        let model = FakeModel::new(fake, clock.clone()).on_wait(hook);
        let probe = model.probe();
        let options = EngineOptions { host_work: Duration::from_micros(host_work_us), ..depth(k) };
        let mut engine = Engine::new(model, clock, options).unwrap();

        let mut conversation: Vec<u32> = Vec::new();
        for turn in turns {
            let mut prompt = conversation[..turn.repeat.min(conversation.len())].to_vec();
            prompt.extend(&turn.fresh);
            prompt.truncate(CONTEXT as usize);
            let request = Request {
                prompt,
                max_tokens: turn.max_tokens,
                sampling: turn.sampling,
                control: Control::Device,
                logprobs: None,
                eog: turn.eog.into(),
                trace: Tracing::On,
            };
            let cancel = CancelHandle::new();
            *alarm.lock().unwrap() = if let Cut::InWait(waits) = turn.cut { Some((waits, cancel.clone())) } else { None };
            let most = if let Cut::AfterTokens(count) = turn.cut { count } else { usize::MAX };
            let mut outlet = Scheduled { tokens: Vec::new(), cancel, most };

            let submits_before = probe.submits();
            let completion = engine.run(&request, &mut outlet).unwrap();
            let delivered = ids(&outlet.tokens);
            let (expected, reason) = reference(&request);
            if completion.reason == FinishReason::Cancelled {
                prop_assert!(!matches!(turn.cut, Cut::Nothing));
                prop_assert!(expected.starts_with(&delivered), "{delivered:?} is no prefix of {expected:?}");
            } else {
                prop_assert_eq!(&delivered, &expected);
                prop_assert_eq!(completion.reason, reason);
            }
            prop_assert_eq!(completion.usage.completion_tokens as usize, delivered.len());
            prop_assert!(completion.overshoot_steps <= k);
            let trace = completion.trace.unwrap();
            prop_assert_eq!(trace.steps.len() as u64, probe.submits() - submits_before);

            conversation = request.prompt.clone();
            conversation.extend(&delivered);
            let kept = engine.kv().tokens();
            prop_assert!(
                request.max_tokens == Some(0) || conversation.starts_with(kept),
                "the cache holds {kept:?}, which {conversation:?} does not begin with"
            );
        }
        prop_assert!(probe.most_in_flight() <= k);
    }
}
