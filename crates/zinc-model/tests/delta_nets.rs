//! Models of delta nets: their layers, and tensors that are parts of a file's or several of them.

use std::path::{Path, PathBuf};

use zinc_kernels::Format;
use zinc_kernels::ops::HeadOrder;
use zinc_model::config::{
    DeltaNetLayer, ExpectedTensor, Mixer, Presence, SharedExpert, check_tensors, is_of_mtp, mtp_tensors,
};
use zinc_model::gguf::{File, Value, Writer};
use zinc_model::weights::{FeedForwardWeights, MixerWeights, ModelWeights, TensorId};
use zinc_model::{Error, Model, ModelConfig};

const DENSE: &str = "qwen35-a-f16.gguf";
const EXPERTS: &str = "qwen35moe-b-q4_k.gguf";

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/arch").join(name)
}

/// The metadata of a file, with other values for some keys of its architecture.
fn changed(name: &str, changes: &[(&str, Value)]) -> Writer {
    let file = File::open(data(name)).unwrap();
    let architecture = file.metadata().require_str("general.architecture").unwrap();
    let mut writer = Writer::new();
    for (key, value) in file.metadata().iter() {
        writer.set(key, value.clone());
    }
    for (key, value) in changes {
        writer.set(&format!("{architecture}.{key}"), value.clone());
    }
    writer
}

fn config(name: &str, changes: &[(&str, Value)]) -> Result<ModelConfig, Error> {
    ModelConfig::from_metadata(changed(name, changes).metadata())
}

/// Whether each layer is a delta net.
fn delta_nets(config: &ModelConfig) -> Vec<bool> {
    config.layers.iter().map(|layer| matches!(layer.mixer, Mixer::DeltaNet(_))).collect()
}

#[test]
fn most_layers_are_delta_nets() {
    let dense = config(DENSE, &[]).unwrap();
    assert_eq!(delta_nets(&dense), [true, true, true, false]);
    let expected = DeltaNetLayer { n_key_head: 2, n_value_head: 6, head_dim: 64, order: HeadOrder::Tiled };
    assert_eq!(dense.delta_net(0), Some(&expected));
    assert!(dense.attention(0).is_none() && dense.delta_net(3).is_none());
    let attention = dense.attention(3).unwrap();
    assert!(attention.gate && attention.qk_norm && attention.window.is_none());
    // A quarter of each head is rotated.
    assert_eq!((attention.head_dim, dense.rope.dims), (64, 16));
    assert_eq!(dense.recurrent_bytes(2), 3 * expected.heads().recurrent_bytes(2));

    let experts = config(EXPERTS, &[]).unwrap();
    assert_eq!(delta_nets(&experts), [true, false, true, false]);
    assert_eq!(experts.feed_forward(0).shared(), Some(SharedExpert { n_ff: 64 }));
    let narrow = config(EXPERTS, &[("expert_shared_feed_forward_length", 32u32.into())]).unwrap();
    assert_eq!(narrow.feed_forward(0).shared(), Some(SharedExpert { n_ff: 32 }));

    // A list of layers goes before the interval, and may count blocks behind the layers.
    let listed = |listed: Value| config(DENSE, &[("attention.recurrent_layers", listed)]);
    let bools = [false, true, true, false];
    let numbers = bools.map(u32::from).to_vec();
    assert_eq!(delta_nets(&listed(bools.to_vec().into()).unwrap()), bools);
    assert_eq!(delta_nets(&listed([&numbers[..], &[1]].concat().into()).unwrap()), bools);
    assert_eq!(delta_nets(&listed(vec![0u32; 4].into()).unwrap()), [false; 4]);
    assert_eq!(
        listed(vec![1u32; 3].into()).unwrap_err().to_string(),
        "the metadata key 'qwen35.attention.recurrent_layers' is a list of 3: it must be a list with a place for each of the 4 layers"
    );
}

#[test]
fn delta_nets_that_cannot_be_computed_are_refused() {
    for (key, value, expected) in [
        ("ssm.conv_kernel", 3, "is 3: it must be 4: other convolutions are not supported"),
        ("ssm.time_step_rank", 5, "is 5: it must be a multiple of the 2 heads of keys in qwen35.ssm.group_count"),
        ("ssm.inner_size", 128, "is 128: it must be 384, the 6 heads of values of 64 elements each"),
        ("ssm.state_size", 0, "is 0: it must be 1 to 1024"),
        ("nextn_predict_layers", 4, "is 4: it must be less than the 4 blocks in qwen35.block_count"),
    ] {
        let message = config(DENSE, &[(key, u32::into(value))]).unwrap_err().to_string();
        assert_eq!(message, format!("the metadata key 'qwen35.{key}' {expected}"));
    }
}

/// The tensors of a file of the same model in which `other` may give a tensor another name and shape, or leave it out, and those in `more` come on top.
/// All rows of a tensor begin with other bytes.
fn rebuilt(
    writer: &mut Writer,
    name: &str,
    other: impl Fn(&str) -> Option<String>,
    more: &[(&str, Vec<u64>)],
) -> tempfile::NamedTempFile {
    let source = File::open(data(name)).unwrap();
    for tensor in source.tensors() {
        if let Some(name) = other(&tensor.name) {
            writer.tensor(&name, &tensor.shape, tensor.format);
        }
    }
    for (name, shape) in more {
        writer.tensor(name, shape, Format::F16);
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let numbers: Vec<u8> = (0..writer.tensors().iter().map(|tensor| tensor.bytes).max().unwrap())
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 9) as u8)
        .collect();
    writer.write(file.path(), |tensor, out| out.write_all(&numbers[..tensor.bytes as usize])).unwrap();
    file
}

#[test]
fn blocks_that_draft_tokens_are_no_layers() {
    let mut writer = changed(DENSE, &[("block_count", 5u32.into()), ("nextn_predict_layers", 1u32.into())]);
    let more = [("blk.4.nextn.eh_proj.weight", vec![256, 128]), ("blk.4.attn_k.weight", vec![128, 128])];
    let file = rebuilt(&mut writer, DENSE, |name| Some(name.to_owned()), &more);
    let file = File::open(file.path()).unwrap();
    let config = ModelConfig::from_gguf(&file).unwrap();
    assert_eq!((config.n_layer(), config.mtp_blocks.len()), (4, 1));
    check_tensors(&file, &config).unwrap();
    assert_eq!(file.tensors().iter().filter(|tensor| is_of_mtp(&tensor.name, &config)).count(), 2);

    let mut writer = changed(DENSE, &[]);
    let file = rebuilt(&mut writer, DENSE, |name| Some(name.to_owned()), &more);
    let file = File::open(file.path()).unwrap();
    let message = check_tensors(&file, &ModelConfig::from_gguf(&file).unwrap()).unwrap_err().to_string();
    assert!(message.contains("'blk.4.nextn.eh_proj.weight' is no part of a qwen35 model"), "{message}");
}

/// One of the files has the tensors that a block needs and a norm, the other an embedding and a head in place of the norm.
#[test]
fn a_block_that_drafts_tokens_has_the_tensors_of_a_layer_with_attention_and_its_own() {
    for (name, own) in [
        ("qwen35-mtp-a-f16.gguf", vec!["blk.2.nextn.shared_head_norm.weight"]),
        ("qwen35-mtp-b-f16.gguf", vec!["blk.2.nextn.embed_tokens.weight", "blk.2.nextn.shared_head_head.weight"]),
    ] {
        let file = File::open(data(name)).unwrap();
        let config = ModelConfig::from_gguf(&file).unwrap();
        check_tensors(&file, &config).unwrap();
        // Every second block has attention, and the third one too.
        assert_eq!(delta_nets(&config), [true, false], "{name}");
        let tensors = mtp_tensors(&config);
        let found = tensors.iter().filter_map(|tensor| Some((tensor, file.tensor(&tensor.name)?)));
        assert!(found.clone().all(|(tensor, found)| tensor.shape == found.shape), "{name}: {tensors:?}");
        assert_eq!(found.clone().count(), file.tensors().iter().filter(|t| is_of_mtp(&t.name, &config)).count());
        let optional = found.filter(|(tensor, _)| tensor.presence == Presence::Optional);
        assert_eq!(optional.map(|(tensor, _)| &tensor.name[..]).collect::<Vec<_>>(), own);
        let missing = |tensor: &&ExpectedTensor| file.tensor(&tensor.name).is_none();
        assert!(tensors.iter().filter(missing).all(|tensor| tensor.presence == Presence::Optional), "{name}");
    }
}

/// The tensors of a file with their bytes.
struct Read {
    file: File,
    weights: ModelWeights,
}

impl Read {
    fn open(path: &Path) -> Self {
        let file = File::open(path).unwrap();
        let weights = ModelWeights::find(&file, &ModelConfig::from_gguf(&file).unwrap()).unwrap();
        Self { file, weights }
    }

    fn data(&self, id: TensorId) -> Vec<u8> {
        self.weights.tensor(id).data(&self.file).into_owned()
    }

    /// The bytes of a row of a tensor of the file.
    fn row(&self, name: &str, row: usize) -> &[u8] {
        let tensor = self.file.tensor(name).unwrap();
        let bytes = tensor.format.to_kernel().unwrap().row_bytes(tensor.shape[0] as usize);
        &self.file.data(tensor)[row * bytes..][..bytes]
    }

    /// The bytes of these rows.
    fn rows(&self, name: &str, rows: impl IntoIterator<Item = usize>) -> Vec<u8> {
        rows.into_iter().flat_map(|row| self.row(name, row)).copied().collect()
    }
}

#[test]
fn queries_and_gates_are_taken_out_of_one_tensor() {
    let read = Read::open(&data(DENSE));
    let MixerWeights::Attention(attention) = &read.weights.layers[3].mixer else {
        panic!("{:?}", read.weights.layers[3])
    };
    let (q, gate) = (attention.q, attention.gate.unwrap());
    assert_eq!(read.weights.tensor(q).rows, 4 * 64);
    let rows = |first: usize| (0..4).flat_map(move |head| (0..64).map(move |row| 128 * head + first + row));
    assert!(read.data(q) == read.rows("blk.3.attn_q.weight", rows(0)), "queries");
    assert!(read.data(gate) == read.rows("blk.3.attn_q.weight", rows(64)), "gates");
    assert_eq!(read.weights.bytes(), read.file.tensors().iter().map(|tensor| tensor.bytes).sum::<u64>());
}

#[test]
fn the_gate_of_the_shared_expert_is_a_row_of_the_router() {
    let read = Read::open(&data(EXPERTS));
    let FeedForwardWeights::Experts { router, .. } = &read.weights.layers[1].feed_forward else { panic!("no experts") };
    let expected = [read.rows("blk.1.ffn_gate_inp.weight", 0..8), read.rows("blk.1.ffn_gate_inp_shexp.weight", [0])];
    assert_eq!((read.weights.tensor(*router).rows, read.weights.tensor(*router).columns), (9, 256));
    assert!(read.data(*router) == expected.concat());
}

/// Every architecture with experts may have their gates and ups in one tensor; other programs write models so.
#[test]
fn gates_and_ups_of_experts_may_be_one_tensor() {
    let fused = |name: &str| match name.rsplit_once('.') {
        Some((prefix, _)) if prefix.ends_with("ffn_gate_exps") || prefix.ends_with("ffn_up_exps") => None,
        _ => Some(name.to_owned()),
    };
    for (name, columns, hidden, experts) in
        [(EXPERTS, 256, 64usize, 8usize), ("../tiny/qwen3moe-b-q8_0.gguf", 128, 64, 32)]
    {
        let config = ModelConfig::from_gguf(&File::open(data(name)).unwrap()).unwrap();
        let shape = vec![columns, 2 * hidden as u64, experts as u64];
        let names: Vec<String> =
            (0..config.n_layer()).map(|layer| format!("blk.{layer}.ffn_gate_up_exps.weight")).collect();
        let more: Vec<(&str, Vec<u64>)> = names.iter().map(|name| (&name[..], shape.clone())).collect();
        let path = rebuilt(&mut changed(name, &[]), name, fused, &more);
        let read = Read::open(path.path());
        let FeedForwardWeights::Experts { gate, up, .. } = &read.weights.layers[1].feed_forward else {
            panic!("{name}")
        };
        for (id, first) in [(*gate, 0), (*up, hidden)] {
            let tensor = read.weights.tensor(id);
            assert_eq!((tensor.rows as usize, tensor.matrices as usize), (hidden, experts), "{name}");
            let rows = (0..experts).flat_map(|expert| (0..hidden).map(move |row| expert * 2 * hidden + first + row));
            assert!(read.data(id) == read.rows(&names[1], rows), "{name}");
        }
        // Both forms at once are too many.
        let path = rebuilt(&mut changed(name, &[]), name, |name| Some(name.to_owned()), &more);
        let message = Model::open(path.path()).unwrap_err().to_string();
        assert!(message.contains("ffn_gate_exps.weight' is no part of"), "{message}");
    }
}

/// Files of Qwen3-Next have one tensor for beta and alpha, in which the heads of a key head stand together.
#[test]
fn beta_and_alpha_may_be_one_tensor() {
    let source = changed(DENSE, &[]);
    let mut writer = Writer::new();
    for (key, value) in source.metadata().iter() {
        writer.set(&key.replace("qwen35.", "qwen3next."), value.clone());
    }
    // Its layers have experts.
    writer
        .set("general.architecture", "qwen3next")
        .set("qwen3next.expert_count", 4u32)
        .set("qwen3next.expert_used_count", 2u32)
        .set("qwen3next.expert_feed_forward_length", 32u32);
    let mut config = ModelConfig::from_metadata(writer.metadata()).unwrap();
    assert_eq!(config.delta_net(0).unwrap().order, HeadOrder::Grouped);
    config.tied_embeddings = false;
    for tensor in zinc_model::config::expected_tensors(&config) {
        match tensor.name.rsplit_once('.').map_or("", |(name, _)| name) {
            name if name.ends_with("ssm_alpha") => {}
            name if name.ends_with("ssm_beta") => {
                writer.tensor(&tensor.name.replace("ssm_beta", "ssm_ba"), &[128, 12], Format::F16);
            }
            _ => {
                writer.tensor(&tensor.name, &tensor.shape, Format::F32);
            }
        }
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut number = 0u8;
    let mut byte = || {
        number = number.wrapping_mul(97).wrapping_add(13);
        number
    };
    writer
        .write(file.path(), |tensor, out| out.write_all(&(0..tensor.bytes).map(|_| byte()).collect::<Vec<u8>>()))
        .unwrap();
    let read = Read::open(file.path());
    let MixerWeights::DeltaNet(delta_net) = &read.weights.layers[0].mixer else {
        panic!("{:?}", read.weights.layers[0])
    };
    // Two key heads, each with beta and then alpha of three value heads.
    assert!(read.data(delta_net.beta) == read.rows("blk.0.ssm_ba.weight", [0, 1, 2, 6, 7, 8]), "beta");
    assert!(read.data(delta_net.alpha) == read.rows("blk.0.ssm_ba.weight", [3, 4, 5, 9, 10, 11]), "alpha");
}
