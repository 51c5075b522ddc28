//! What the golden tests share: a device under the validation layer, and the golden files.

use std::path::Path;
use std::sync::Arc;

use zinc_kernels::Pipelines;
use zinc_vk::{Device, DevicePlan, Instance, InstanceOptions, Validation, Wants};

/// The device that a user would get, watched by the validation layer. Dropping it checks that the layer had nothing to say.
pub(crate) struct Gpu {
    instance: Arc<Instance>,
    pub(crate) pipelines: Arc<Pipelines>,
}

impl Gpu {
    pub(crate) fn open() -> Self {
        // Machines without the layer say so; everywhere else its absence is a failure.
        let validation = match std::env::var("ZINC_TEST_VALIDATION").as_deref() {
            Ok("off") => Validation::Off,
            _ => Validation::On,
        };
        let instance = Instance::new(&InstanceOptions { validation }).unwrap_or_else(|e| panic!("{e}"));
        let adapters = instance.adapters().unwrap_or_else(|e| panic!("{e}"));
        let plan = DevicePlan::choose(&adapters, &Wants::default()).unwrap_or_else(|e| panic!("{e}"));
        let device = Device::open(&instance, &plan).unwrap_or_else(|e| panic!("{e}"));
        Self { instance, pipelines: Arc::new(Pipelines::new(device)) }
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let messages = self.instance.validation_messages();
            assert!(messages.is_empty(), "the validation layer says: {messages:#?}");
        }
    }
}

/// A golden file of a tiny model.
pub(crate) struct Tiny {
    pub(crate) name: String,
    pub(crate) ids: Vec<u32>,
    pub(crate) greedy: Vec<u32>,
    pub(crate) margins: Vec<f64>,
    logits: Vec<f32>,
    vocabulary: usize,
}

impl Tiny {
    /// Reads what lies beside a model.
    pub(crate) fn read(model: &Path) -> Self {
        let json = std::fs::read(model.with_extension("json")).expect("the golden values");
        let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        let ids = |key: &str| -> Vec<u32> {
            json[key].as_array().expect(key).iter().map(|id| id.as_u64().expect("an id") as u32).collect()
        };
        let logits: Vec<f32> = std::fs::read(model.with_extension("logits.f32"))
            .expect("the golden logits")
            .as_chunks()
            .0
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes))
            .collect();
        let vocabulary = json["shape"][1].as_u64().expect("a shape") as usize;
        Self {
            name: model.file_stem().expect("a name").to_string_lossy().into_owned(),
            ids: ids("ids"),
            greedy: ids("greedy"),
            margins: json["margins"].as_array().expect("margins").iter().filter_map(|m| m.as_f64()).collect(),
            logits,
            vocabulary,
        }
    }

    pub(crate) fn logits(&self, position: usize) -> &[f32] {
        &self.logits[position * self.vocabulary..][..self.vocabulary]
    }

    pub(crate) fn values(&self) -> usize {
        self.logits.len()
    }
}
