//! Pipelines are built once for each kernel and set of constants, by several threads.

use std::sync::Arc;

use zinc_kernels::ops::{Read, Sample};
use zinc_kernels::step::{Rows, StepShape};
use zinc_kernels::{Dispatch, Pipelines};

use crate::support::Gpu;

#[test]
fn each_pipeline_is_built_once_whoever_builds_it() {
    let gpu = Gpu::get();
    let pipelines = Pipelines::new(gpu.device.clone());
    let target = pipelines.target();
    let read = Read { state: 0, x: 0, tiles: 1, y: 0, workgroups: 1 };
    let sample = |vocabulary| Sample {
        state: 0,
        logits: Rows::default(),
        candidates: Rows::default(),
        vocabulary,
        shape: StepShape::ONE,
    };
    let launches: Vec<Dispatch> =
        [read.dispatch(&target), sample(64).dispatch(&target), read.dispatch(&target), sample(9_000).dispatch(&target)]
            .into();
    let (mut told, mut kinds) = (Vec::new(), Vec::new());
    for launch in &launches {
        let kind = (launch.kernel.name, launch.constants.clone());
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    pipelines
        .build(&launches[..1], &launches[1..], &mut |done, all| told.push((done, all)))
        .expect("the kernels are built");
    let expected: Vec<(usize, usize)> = (1..=kinds.len()).map(|done| (done, kinds.len())).collect();
    assert_eq!(told, expected);

    let first: Vec<_> = launches.iter().map(|launch| pipelines.get(launch).expect("it is built")).collect();
    assert!(Arc::ptr_eq(&first[0], &first[2]));
    pipelines.build(&[], &launches, &mut |_, _| ()).expect("the kernels are there");
    for (launch, before) in launches.iter().zip(&first) {
        assert!(
            Arc::ptr_eq(before, &pipelines.get(launch).expect("it is there")),
            "{} was built again",
            launch.kernel.name
        );
    }
    pipelines.build(&[], &[], &mut |done, all| panic!("{done} of {all}")).expect("there is nothing to build");
}
