//! Configs of files made by other programs, and of files made wrong here.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use zinc_kernels::Format;
use zinc_kernels::ops::Activation;
use zinc_model::config::{
    Architecture, AttentionLayer, ExpertWeightSum, ExpertWeights, FeedForward, Layer, Mixer, ModelConfig, ModelOptions,
    Rope, RopeOverrides, RopePairing, RopeScaling, RopeScalingKind, Yarn, check_tensors, expected_tensors,
};
use zinc_model::gguf::{File, Value, Writer};
use zinc_model::weights::ModelWeights;
use zinc_model::{Error, Result};

fn root(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

#[test]
fn configs_of_other_programs_files_are_read_and_their_tensors_fit() {
    let names = [
        "tests/data/tiny/qwen3moe-a-q2_k.gguf",
        "tests/data/tiny/qwen3moe-a-iq4_xs.gguf",
        "tests/data/tiny/qwen3moe-a-q4_0.gguf",
        "tests/data/tiny/qwen3moe-a-q4_k_m.gguf",
        "tests/data/tiny/qwen3moe-b-q8_0.gguf",
        "tests/data/tiny/qwen3-f16.gguf",
        "tests/data/tiny/qwen2-f16.gguf",
        "tests/data/tiny/llama-f16.gguf",
        "tests/data/arch/gptoss-a-f16.gguf",
        "tests/data/arch/gptoss-a-mxfp4.gguf",
        "tests/data/arch/qwen35-a-f16.gguf",
        "tests/data/arch/qwen35moe-b-q4_k.gguf",
        "models/zinc-demo-q4_k_m.gguf",
    ];
    for name in names {
        let file = File::open(root(name)).unwrap();
        let config = ModelConfig::from_gguf(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        check_tensors(&file, &config).unwrap_or_else(|error| panic!("{name}: {error}"));
        let weights = ModelWeights::find(&file, &config).unwrap_or_else(|error| panic!("{name}: {error}"));
        let used: HashSet<usize> =
            weights.tensors.iter().flat_map(|tensor| &tensor.sources).map(|source| source.file_index).collect();
        assert_eq!(used.len(), file.tensors().len(), "{name}: the forward pass has a use for every tensor");
        assert_eq!(weights.bytes(), file.tensors().iter().map(|tensor| tensor.bytes).sum::<u64>(), "{name}");
    }
}

#[test]
fn the_demo_model_is_what_it_is() {
    let file = File::open(root("models/zinc-demo-q4_k_m.gguf")).unwrap();
    let attention = AttentionLayer {
        n_head: 8,
        n_head_kv: 2,
        head_dim: 64,
        window: None,
        qk_norm: true,
        qkv_bias: false,
        output_bias: false,
        sinks: false,
        gate: false,
    };
    let layer = Layer {
        mixer: Mixer::Attention(attention),
        feed_forward: FeedForward::Experts {
            n_expert: 8,
            n_expert_used: 2,
            n_ff: 256,
            weights: ExpertWeights { sum: ExpertWeightSum::One, scale: 1.0 },
            activation: Activation::SwiGlu,
            bias: false,
            shared: None,
        },
    };
    let expected = ModelConfig {
        architecture: Architecture::Qwen3Moe,
        n_embd: 256,
        layers: vec![layer; 8],
        mtp_blocks: Vec::new(),
        mtp: false,
        rms_eps: 1e-6,
        rope: Rope { base: 1e6, dims: 64, pairing: RopePairing::Halves, scaling: RopeScaling::None },
        n_ctx_train: 1024,
        n_vocab: 8192,
        tied_embeddings: false,
    };
    let config = ModelConfig::from_gguf(&file).unwrap();
    assert_eq!(config, expected);
    assert_eq!((attention.q_width(), attention.kv_width()), (512, 128));
    assert_eq!(expected_tensors(&config).len(), file.tensors().len());
}

#[test]
fn dense_models_differ_where_their_families_do() {
    let config = |name: &str| ModelConfig::from_gguf(&File::open(root(name)).unwrap()).unwrap();
    let llama = config("tests/data/tiny/llama-f16.gguf");
    let of_llama = llama.attention(0).unwrap();
    assert_eq!(of_llama.head_dim, 32, "no key_length: the width over the heads");
    assert_eq!(llama.rope.pairing, RopePairing::Neighbours);
    assert_eq!(*llama.feed_forward(0), FeedForward::Dense { n_ff: 352, activation: Activation::SwiGlu });
    assert!(!of_llama.qk_norm && !of_llama.qkv_bias && !llama.tied_embeddings);
    let qwen2 = config("tests/data/tiny/qwen2-f16.gguf");
    assert!(!qwen2.attention(0).unwrap().qk_norm && qwen2.attention(0).unwrap().qkv_bias && qwen2.tied_embeddings);
    assert_eq!(qwen2.rope.pairing, RopePairing::Halves);
    let qwen3 = config("tests/data/tiny/qwen3-f16.gguf");
    assert!(qwen3.attention(0).unwrap().qk_norm && !qwen3.attention(0).unwrap().qkv_bias);
}

/// A tiny model of gpt-oss: its layers take turns, and older files have other names for the architecture and for some tensors.
#[test]
fn layers_of_one_model_may_differ() {
    let file = File::open(root("tests/data/arch/gptoss-a-mxfp4.gguf")).unwrap();
    let config = ModelConfig::from_gguf(&file).unwrap();
    let windows: Vec<Option<u32>> =
        (0..config.n_layer()).map(|layer| config.attention(layer).unwrap().window).collect();
    assert_eq!(windows, [Some(32), None, Some(32), None]);
    for layer in 0..config.n_layer() {
        let AttentionLayer { qk_norm, qkv_bias, output_bias, sinks, .. } = *config.attention(layer).unwrap();
        assert!(!qk_norm && qkv_bias && output_bias && sinks, "layer {layer}");
        let weights = ExpertWeights { sum: ExpertWeightSum::One, scale: 1.0 };
        let activation = Activation::ClampedSwiGlu;
        let expected = FeedForward::Experts {
            n_expert: 8,
            n_expert_used: 2,
            n_ff: 64,
            weights,
            activation,
            bias: true,
            shared: None,
        };
        assert_eq!(*config.feed_forward(layer), expected, "layer {layer}");
    }
    assert!(matches!(config.rope.scaling, RopeScaling::Yarn(Yarn { whole_pairs: false, .. })));

    let mut older = Writer::new();
    for (key, value) in file.metadata().iter().filter(|(key, _)| key.starts_with("gpt-oss.")) {
        older.set(&key.replace("gpt-oss.", "gptoss."), value.clone());
    }
    older.set("general.architecture", "gptoss");
    // Its file has no output matrix here.
    assert_eq!(self::config(&older).unwrap(), ModelConfig { tied_embeddings: true, ..config });
    for tensor in file.tensors() {
        let name = tensor.name.replace("attn_output.", "attn_out.").replace("attn_sinks.weight", "attn_sinks");
        older.tensor(&name.replace("post_attention_norm", "ffn_norm"), &tensor.shape, tensor.format);
    }
    let older_file = self::file(&older);
    let weights = ModelWeights::find(&older_file, &ModelConfig::from_gguf(&older_file).unwrap()).unwrap();
    assert_eq!(weights.tensors.len(), file.tensors().len());
    older.set("gptoss.attention.sliding_window", 0u32);
    let message = self::config(&older).unwrap_err().to_string();
    assert_eq!(message, "the metadata key 'gptoss.attention.sliding_window' is 0: it must be 1 to 1073741824");
}

/// A tiny model of experts, before anything is made wrong with it.
fn moe() -> Writer {
    let mut writer = Writer::new();
    writer
        .set("general.architecture", "qwen3moe")
        .set("qwen3moe.block_count", 1u32)
        .set("qwen3moe.embedding_length", 32u32)
        .set("qwen3moe.attention.head_count", 4u32)
        .set("qwen3moe.attention.head_count_kv", 2u32)
        .set("qwen3moe.attention.layer_norm_rms_epsilon", 1e-6f32)
        .set("qwen3moe.attention.key_length", 16u32)
        .set("qwen3moe.context_length", 64u32)
        .set("qwen3moe.vocab_size", 7u32)
        .set("qwen3moe.expert_count", 4u32)
        .set("qwen3moe.expert_used_count", 2u32)
        .set("qwen3moe.expert_feed_forward_length", 64u32);
    writer
}

fn dense(architecture: &str) -> Writer {
    let key = |name: &str| format!("{architecture}.{name}");
    let mut writer = Writer::new();
    writer
        .set("general.architecture", architecture)
        .set(&key("block_count"), 1u32)
        .set(&key("embedding_length"), 64u32)
        .set(&key("attention.head_count"), 4u32)
        .set(&key("attention.layer_norm_rms_epsilon"), 1e-5f32)
        .set(&key("context_length"), 64u32)
        .set(&key("vocab_size"), 7u32)
        .set(&key("feed_forward_length"), 96u32);
    writer
}

fn file(writer: &Writer) -> File {
    let file = tempfile::NamedTempFile::new().unwrap();
    writer.write(file.path(), |tensor, out| out.write_all(&vec![0; tensor.bytes as usize])).unwrap();
    File::open(file.path()).unwrap()
}

fn config(writer: &Writer) -> Result<ModelConfig> {
    ModelConfig::from_gguf(&file(writer))
}

#[test]
fn defaults_hold_where_keys_are_missing() {
    let moe = config(&moe()).unwrap();
    assert_eq!((moe.attention(0).unwrap().head_dim, moe.rope.dims, moe.rope.base), (16, 16, 1e4));
    let llama = config(&dense("llama")).unwrap();
    assert_eq!((llama.attention(0).unwrap().n_head_kv, llama.attention(0).unwrap().head_dim), (4, 16));
    assert_eq!(llama.rope.scaling, RopeScaling::None);

    // Without vocab_size, the list of tokens counts, or else the rows of the embedding.
    let mut writer = Writer::new();
    let source = dense("llama");
    for (key, value) in source.metadata().iter().filter(|(key, _)| !key.ends_with("vocab_size")) {
        writer.set(key, value.clone());
    }
    assert!(matches!(config(&writer), Err(Error::MissingKey { key }) if key == "llama.vocab_size"));
    writer.tensor("token_embd.weight", &[64, 9], Format::F16);
    assert_eq!(config(&writer).unwrap().n_vocab, 9);
    writer.set("tokenizer.ggml.tokens", vec!["a".to_owned(), "b".to_owned()]);
    assert_eq!(config(&writer).unwrap().n_vocab, 2);
}

/// The position embedding of a model whose file has these entries below `qwen2.rope`, with `overrides`. It is trained for 64 positions.
fn rope(entries: &[(&str, Value)], overrides: &RopeOverrides) -> Result<Rope, Error> {
    let mut writer = dense("qwen2");
    entries.iter().for_each(|(name, value)| {
        writer.set(&format!("qwen2.rope.{name}"), value.clone());
    });
    ModelConfig::with_options(&file(&writer), &ModelOptions { rope: *overrides, ..ModelOptions::default() })
        .map(|config| config.rope)
}

fn scaling(entries: &[(&str, Value)], overrides: &RopeOverrides) -> Result<RopeScaling, Error> {
    rope(entries, overrides).map(|rope| rope.scaling)
}

fn entries(kind: &str, factor: f32) -> [(&'static str, Value); 2] {
    [("scaling.type", kind.into()), ("scaling.factor", factor.into())]
}

/// What a file gets that says no more than that its positions are scaled by YaRN, by 4.
const YARN: Yarn = Yarn {
    factor: 4.0,
    original_context: 64,
    extrapolation: 1.0,
    attention_factor: 1.0,
    beta_fast: 32.0,
    beta_slow: 1.0,
    whole_pairs: true,
};

#[test]
fn rope_scaling_is_read_or_named() {
    let scaling = |entries: &[(&str, Value)]| scaling(entries, &RopeOverrides::default());
    assert_eq!(scaling(&entries("linear", 4.0)).unwrap(), RopeScaling::Linear { factor: 4.0 });
    assert_eq!(scaling(&entries("linear", 1.0)).unwrap(), RopeScaling::None);
    assert_eq!(scaling(&[("scale_linear", 2.0f32.into())]).unwrap(), RopeScaling::Linear { factor: 2.0 });
    assert_eq!(scaling(&[("scaling.type", "none".into())]).unwrap(), RopeScaling::None);
    // Files without a factor are not scaled.
    for kind in ["linear", "yarn"] {
        assert_eq!(scaling(&[("scaling.type", kind.into())]).unwrap(), RopeScaling::None, "{kind}");
        assert_eq!(scaling(&entries(kind, 0.0)).unwrap(), RopeScaling::None, "{kind}");
        for factor in [0.5, -1.0, f32::NAN, f32::INFINITY] {
            assert!(matches!(scaling(&entries(kind, factor)), Err(Error::BadValue { .. })), "{kind} {factor}");
        }
    }
    let other = scaling(&entries("longrope", 4.0)).unwrap_err();
    assert_eq!(other.to_string(), "rope scaling of type 'longrope' is not supported: none, linear and yarn are");
}

#[test]
fn yarn_is_read_with_the_numbers_of_its_paper_where_the_file_has_none() {
    let yarn = |more: &[(&'static str, Value)]| {
        scaling(&[&entries("yarn", 4.0)[..], more].concat(), &RopeOverrides::default())
    };
    assert_eq!(yarn(&[]).unwrap(), RopeScaling::Yarn(YARN));
    let original = |positions: u32| [("scaling.original_context_length", positions.into())];
    assert_eq!(yarn(&original(0)).unwrap(), RopeScaling::Yarn(YARN));
    assert_eq!(yarn(&original(32)).unwrap(), RopeScaling::Yarn(Yarn { original_context: 32, ..YARN }));
    let all = [
        ("scaling.attn_factor", 1.5f32.into()),
        ("scaling.yarn_attn_factor", 2f32.into()),
        ("scaling.yarn_ext_factor", 0.5f32.into()),
        ("scaling.yarn_beta_fast", 16f32.into()),
        ("scaling.yarn_beta_slow", 2f32.into()),
    ];
    let expected = Yarn { attention_factor: 3.0, extrapolation: 0.5, beta_fast: 16.0, beta_slow: 2.0, ..YARN };
    assert_eq!(yarn(&all).unwrap(), RopeScaling::Yarn(expected));
    for (name, value) in [
        ("scaling.attn_factor", 0f32),
        ("scaling.yarn_attn_factor", f32::NAN),
        ("scaling.yarn_ext_factor", 1.5),
        ("scaling.yarn_ext_factor", -1.0),
        ("scaling.yarn_beta_fast", f32::INFINITY),
        ("scaling.yarn_beta_fast", 1.0),
        ("scaling.yarn_beta_slow", 0.0),
        ("freq_base", 1.0),
    ] {
        let error = yarn(&[(name, value.into())]).unwrap_err();
        assert!(matches!(&error, Error::BadValue { .. }), "{name} {value}: {error}");
        assert!(error.to_string().contains(name), "{name} {value}: {error}");
    }
}

#[test]
fn a_caller_replaces_parts_of_the_position_embedding() {
    let asked = |kind, factor| RopeOverrides { scaling: kind, factor, ..RopeOverrides::default() };
    let (linear, yarn) = (Some(RopeScalingKind::Linear), Some(RopeScalingKind::Yarn));
    let by = |factor| RopeScaling::Linear { factor };
    // A factor alone is linear in a file that names no kind, and belongs to the kind that a file names.
    assert_eq!(scaling(&[], &asked(None, Some(4.0))).unwrap(), by(4.0));
    assert_eq!(scaling(&entries("linear", 2.0), &asked(None, Some(4.0))).unwrap(), by(4.0));
    assert_eq!(scaling(&entries("yarn", 2.0), &asked(None, Some(4.0))).unwrap(), RopeScaling::Yarn(YARN));
    // The file's factor belongs to the kind that is asked for.
    assert_eq!(scaling(&entries("linear", 4.0), &asked(yarn, None)).unwrap(), RopeScaling::Yarn(YARN));
    assert_eq!(scaling(&entries("yarn", 4.0), &asked(linear, None)).unwrap(), by(4.0));
    assert_eq!(scaling(&entries("longrope", 4.0), &asked(linear, None)).unwrap(), by(4.0));
    assert_eq!(scaling(&entries("none", 1.0), &asked(linear, Some(4.0))).unwrap(), by(4.0));
    let none = asked(Some(RopeScalingKind::None), None);
    assert_eq!(scaling(&entries("yarn", 4.0), &none).unwrap(), RopeScaling::None);
    // Numbers of YaRN go before those of the file, but for the factor that both give for attention.
    let file = [
        &entries("yarn", 2.0)[..],
        &[
            ("scaling.original_context_length", 16u32.into()),
            ("scaling.attn_factor", 1.5f32.into()),
            ("scaling.yarn_attn_factor", 7f32.into()),
            ("scaling.yarn_ext_factor", 0.5f32.into()),
            ("scaling.yarn_beta_fast", 64f32.into()),
            ("scaling.yarn_beta_slow", 2f32.into()),
        ],
    ]
    .concat();
    let all = RopeOverrides {
        scaling: None,
        factor: Some(4.0),
        base: Some(5e5),
        original_context: Some(32),
        extrapolation: Some(0.25),
        attention_factor: Some(2.0),
        beta_fast: Some(16.0),
        beta_slow: Some(4.0),
    };
    let expected = Yarn {
        factor: 4.0,
        original_context: 32,
        extrapolation: 0.25,
        attention_factor: 3.0,
        beta_fast: 16.0,
        beta_slow: 4.0,
        whole_pairs: true,
    };
    let found = rope(&file, &all).unwrap();
    assert_eq!((found.base, found.scaling), (5e5, RopeScaling::Yarn(expected)));
}

#[test]
fn overrides_that_do_not_go_together_are_refused() {
    let yarn = RopeOverrides { scaling: Some(RopeScalingKind::Yarn), ..RopeOverrides::default() };
    for (file, overrides, expected) in [
        (&[][..], yarn, "rope scaling of type 'yarn' was asked for without a factor, and the file has none"),
        (
            &entries("none", 1.0)[..],
            RopeOverrides { factor: Some(4.0), ..RopeOverrides::default() },
            "a factor was given for the rope scaling, but scaling of type 'none' is in force, which has none",
        ),
        (
            &entries("linear", 4.0),
            RopeOverrides { beta_slow: Some(2.0), ..RopeOverrides::default() },
            "a slow beta was given for the rope scaling, but scaling of type 'linear' is in force, which has none",
        ),
        (
            &[],
            RopeOverrides { original_context: Some(64), ..RopeOverrides::default() },
            "an original context was given for the rope scaling, but scaling of type 'none' is in force, which has none",
        ),
        (
            &[],
            RopeOverrides { factor: Some(0.5), ..yarn },
            "the factor of the rope scaling is 0.5: it must be 1 or above",
        ),
        (
            &entries("yarn", 4.0),
            RopeOverrides { beta_slow: Some(32.0), ..RopeOverrides::default() },
            "the fast beta of the rope scaling is 32: it must be above the slow beta, which is 32",
        ),
        (
            &[&entries("yarn", 4.0)[..], &[("scaling.attn_factor", 1e30f32.into())]].concat(),
            RopeOverrides { attention_factor: Some(1e30), ..RopeOverrides::default() },
            "the attention factor of the rope scaling is inf: it must be above 0 and finite, both factors together",
        ),
        (
            &entries("yarn", 4.0),
            RopeOverrides { base: Some(1.0), ..RopeOverrides::default() },
            "the frequency base of the rope scaling is 1: it must be above 1 with YaRN",
        ),
        (
            &entries("yarn", 4.0),
            RopeOverrides { original_context: Some(0), ..RopeOverrides::default() },
            "the original context of the rope scaling is 0: it must be 1 to 1073741824",
        ),
    ] {
        assert_eq!(scaling(file, &overrides).unwrap_err().to_string(), expected);
    }
}

#[test]
fn wrong_values_are_errors_with_the_key_and_the_numbers() {
    let message = |key: &str, value: Value| {
        let message = config(moe().set(&format!("qwen3moe.{key}"), value)).unwrap_err().to_string();
        assert!(message.contains(key), "{message}");
        message
    };
    message("block_count", 0u32.into());
    message("block_count", 100_000u32.into());
    message("embedding_length", u32::MAX.into());
    message("attention.head_count", 0u32.into());
    message("context_length", 0u32.into());
    message("vocab_size", 0u32.into());
    message("attention.layer_norm_rms_epsilon", f32::NAN.into());
    message("attention.layer_norm_rms_epsilon", (-1f32).into());
    message("rope.freq_base", 0f32.into());
    message("rope.dimension_count", 15u32.into());
    message("rope.dimension_count", 18u32.into());
    message("expert_weights_scale", f32::INFINITY.into());
    message("expert_count", 0u32.into());
    assert_eq!(
        message("attention.head_count_kv", 3u32.into()),
        "the metadata key 'qwen3moe.attention.head_count_kv' is 3: \
         it must be a divisor of the 4 heads in qwen3moe.attention.head_count"
    );
    assert_eq!(
        message("expert_used_count", 5u32.into()),
        "the metadata key 'qwen3moe.expert_used_count' is 5: \
         it must be at most the 4 experts in qwen3moe.expert_count"
    );
    assert!(message("expert_count", 1025u32.into()).ends_with("is 1025: it must be 1 to 1024"));
    assert!(message("attention.value_length", 32u32.into()).contains("16 as the length of keys"));
    assert!(message("block_count", vec![1i32].into()).contains("an array of 1 i32"));

    let mut no_heads = dense("llama");
    let message = config(no_heads.set("llama.attention.head_count", 5u32)).unwrap_err().to_string();
    assert!(message.contains("a divisor of the width 64") && message.contains("key_length is missing"), "{message}");
    let experts = config(dense("llama").set("llama.expert_count", 8u32)).unwrap_err().to_string();
    assert!(experts.contains("experts are supported in qwen3moe, gpt-oss, qwen35moe, qwen3next only"), "{experts}");
    assert!(config(dense("llama").set("llama.expert_count", 0u32)).is_ok());
}

#[test]
fn other_architectures_are_named_with_the_supported_ones() {
    let mut writer = Writer::new();
    let message = config(&writer).unwrap_err().to_string();
    assert_eq!(message, "the metadata key 'general.architecture' is missing");
    let message = config(writer.set("general.architecture", "gemma3")).unwrap_err().to_string();
    assert_eq!(
        message,
        "the architecture 'gemma3' is not supported: qwen3moe, qwen3, qwen2, llama, gpt-oss, qwen35, qwen35moe, qwen3next are"
    );
}

/// Adds the tensors of the writer's config; `change` may give them other shapes or formats, or leave them out.
fn add_tensors(
    writer: &mut Writer,
    change: impl Fn(&str, Vec<u64>) -> Option<(Vec<u64>, zinc_model::gguf::TensorFormat)>,
) {
    let config = config(writer).unwrap();
    for tensor in expected_tensors(&config) {
        if let Some((shape, format)) = change(&tensor.name, tensor.shape) {
            writer.tensor(&tensor.name, &shape, format);
        }
    }
    // Otherwise the embedding would be the head too.
    writer.tensor("output.weight", &[u64::from(config.n_embd), u64::from(config.n_vocab)], Format::F32);
}

fn check(writer: &Writer) -> Result<()> {
    let file = file(writer);
    check_tensors(&file, &ModelConfig::from_gguf(&file)?)
}

#[test]
fn tensors_are_checked() {
    let f32s = |shape| Some((shape, Format::F32.into()));
    let mut sound = moe();
    add_tensors(&mut sound, |_, shape| f32s(shape));
    check(&sound).unwrap();

    let mut missing = moe();
    add_tensors(&mut missing, |name, shape| if name == "blk.0.ffn_up_exps.weight" { None } else { f32s(shape) });
    let message = check(&missing).unwrap_err().to_string();
    assert_eq!(message, "the tensor 'blk.0.ffn_up_exps.weight' is missing; it should have the shape [32, 64, 4]");

    let mut wrong = moe();
    add_tensors(&mut wrong, |name, shape| f32s(if name == "blk.0.attn_k.weight" { vec![32, 64] } else { shape }));
    let message = check(&wrong).unwrap_err().to_string();
    assert_eq!(message, "the tensor 'blk.0.attn_k.weight' should have the shape [32, 32], but it has [32, 64]");

    let mut unsupported = moe();
    let q8_1 = zinc_model::gguf::TensorFormat::from_id(9).unwrap();
    add_tensors(
        &mut unsupported,
        |name, shape| {
            if name == "blk.0.attn_q.weight" { Some((shape, q8_1)) } else { f32s(shape) }
        },
    );
    let message = check(&unsupported).unwrap_err().to_string();
    assert!(message.starts_with("the tensor 'blk.0.attn_q.weight' has the format Q8_1, which is not"), "{message}");
    assert!(message.contains("IQ4_NL, IQ4_XS, MXFP4 are"), "{message}");

    let mut norm = moe();
    add_tensors(&mut norm, |name, shape| {
        Some((shape, if name == "output_norm.weight" { Format::F16 } else { Format::F32 }.into()))
    });
    let message = check(&norm).unwrap_err().to_string();
    assert!(message.contains("'output_norm.weight' has the format F16") && message.ends_with("F32 are"), "{message}");

    for of_vision in ["v.patch_embd.weight", "v.blk.0.attn_q.weight", "mm.0.weight"] {
        sound.tensor(of_vision, &[3, 5], Format::F16);
    }
    check(&sound).unwrap();

    sound.tensor("blk.0.attn_sinks.weight", &[4], Format::F32);
    let message = check(&sound).unwrap_err().to_string();
    assert_eq!(message, "the tensor 'blk.0.attn_sinks.weight' is no part of a qwen3moe model as zinc knows it");
}

#[test]
fn llama_may_have_frequency_factors_and_biases() {
    let f32s = |_: &str, shape| Some((shape, Format::F32.into()));
    let mut writer = dense("llama");
    add_tensors(&mut writer, |name, shape| if name == "rope_freqs.weight" { None } else { f32s(name, shape) });
    check(&writer).unwrap();
    assert!(!config(&writer).unwrap().attention(0).unwrap().qkv_bias);
    let mut with_factors = dense("llama");
    add_tensors(&mut with_factors, f32s);
    check(&with_factors).unwrap();
    writer.tensor("blk.0.attn_q.bias", &[64], Format::F32);
    assert!(config(&writer).unwrap().attention(0).unwrap().qkv_bias);
    assert!(matches!(check(&writer), Err(Error::MissingTensor { name, .. }) if name == "blk.0.attn_k.bias"));
}
