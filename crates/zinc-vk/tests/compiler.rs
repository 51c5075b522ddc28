//! Tests of `Compiler`, which asks a driver for statistics of the shaders that it compiles. Drivers that give none are
//! an error.

mod support;

use support::{Gpu, words};
use zinc_vk::{Compiler, Error, Features, PipelineSpec};

#[test]
fn a_compiler_tells_what_became_of_a_shader_or_that_it_cannot() {
    let gpu = Gpu::new();
    assert!(!gpu.plan().features.contains(Features::PIPELINE_STATISTICS), "devices are opened without");
    let opened = Compiler::open(gpu.instance(), gpu.plan());
    if !gpu.facts().features.contains(Features::PIPELINE_STATISTICS) {
        assert!(matches!(opened, Err(Error::NoPipelineStatistics { device }) if device == gpu.facts().name));
        return;
    }
    let compiler = opened.unwrap();
    let size = compiler.subgroup_width() * 2;
    let spec = PipelineSpec {
        name: "affine",
        spirv: &words(include_bytes!("shaders/affine.spv")),
        push_bytes: 16,
        constants: &[(0, size), (1, 3)],
        workgroup_size: size,
    };
    let compiled = compiler.compile(&spec).unwrap();
    assert!([0, compiler.subgroup_width()].contains(&compiled.subgroup_width), "{}", compiled.subgroup_width);
    assert!(!compiled.statistics.is_empty());
    assert!(compiled.representations.iter().all(|(name, _)| !name.is_empty()));
}
