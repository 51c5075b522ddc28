//! The bandwidth that is measured is that of a memory.

mod support;

use support::Gpu;

#[test]
fn a_copy_has_a_bandwidth_and_leaves_no_memory_behind() {
    let gpu = Gpu::new();
    let ours = |gpu: &Gpu| gpu.memory_report().heaps.iter().map(|heap| heap.ours).sum::<u64>();
    let before = ours(&gpu);
    let bandwidth = gpu.copy_bandwidth().unwrap();
    // No memory is slower than 10 MB/s or faster than 100 TB/s.
    assert!((1e7..1e14).contains(&bandwidth), "{bandwidth} bytes/s");
    assert_eq!(ours(&gpu), before);
}
