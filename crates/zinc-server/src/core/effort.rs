//! The efforts of reasoning that a chat template takes, and which of them a request means that names another.

use serde_json::{Map, Value, json};
use zinc_model::ChatInput;

/// The variable in which templates are told the effort.
const VARIABLE: &str = "reasoning_effort";

/// The efforts that clients name, from the least to the most.
const ALL: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// The efforts that a template takes where it refuses others, as those of Qwen3.8 do. None, if it refuses none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Efforts {
    /// Their places in [`ALL`].
    taken: Vec<usize>,
}

impl Efforts {
    /// The efforts that a template of this source takes. `is_taken` renders a conversation and says whether the template does not refuse it.
    pub(crate) fn of_template(source: &str, is_taken: impl Fn(&ChatInput) -> bool) -> Self {
        if !source.contains(VARIABLE) {
            return Self::default();
        }
        let input = |effort: &str| ChatInput {
            messages: json!([{ "role": "user", "content": "Hi" }]),
            tools: None,
            kwargs: Map::from_iter([(VARIABLE.to_owned(), effort.into())]),
            add_generation_prompt: true,
        };
        let taken: Vec<usize> = (0..ALL.len()).filter(|&place| is_taken(&input(ALL[place]))).collect();
        if taken.len() == ALL.len() { Self::default() } else { Self { taken } }
    }

    /// The variables of the template, with the nearest effort that it takes, the higher one of two that are as near. Others than clients name stay.
    pub(super) fn variables(&self, given: &Map<String, Value>) -> Map<String, Value> {
        let mut variables = given.clone();
        if let Some(effort) = variables.get_mut(VARIABLE)
            && let Some(place) = ALL.iter().position(|name| effort == name)
            && let Some(&nearest) = self.taken.iter().rev().min_by_key(|taken| taken.abs_diff(place))
        {
            *effort = ALL[nearest].into();
        }
        variables
    }
}

#[cfg(test)]
mod tests {
    use zinc_model::ChatTemplate;

    use super::*;

    fn efforts(source: &str) -> Efforts {
        let template = ChatTemplate::new(source).unwrap();
        Efforts::of_template(source, |input| template.render(input).is_ok())
    }

    fn given(effort: &str) -> Map<String, Value> {
        Map::from_iter([(VARIABLE.to_owned(), effort.into()), ("x".to_owned(), 1.into())])
    }

    #[test]
    fn an_effort_that_a_template_refuses_becomes_the_nearest() {
        let efforts = efforts(&zinc_model::template::builtin("qwen3.8").unwrap());
        for (named, taken) in [
            ("none", "low"),
            ("minimal", "low"),
            ("low", "low"),
            ("medium", "medium"),
            ("high", "xhigh"),
            ("xhigh", "xhigh"),
            ("max", "xhigh"),
            ("turbo", "turbo"),
        ] {
            assert_eq!(efforts.variables(&given(named)), given(taken));
        }
        assert_eq!(efforts.variables(&Map::new()), Map::new());
        let number = Map::from_iter([(VARIABLE.to_owned(), 3.into())]);
        assert_eq!(efforts.variables(&number), number);
    }

    #[test]
    fn efforts_stay_where_a_template_refuses_none_or_all() {
        for source in ["{{ reasoning_effort }}", "Hi", "{{ raise_exception(reasoning_effort) }}"] {
            assert_eq!(efforts(source).variables(&given("high")), given("high"), "{source}");
        }
    }
}
