//! Device choice on recorded facts: no device is needed.

use zinc_vk::{
    AdapterFacts, AdapterKind, DevicePlan, DeviceSelector, Error, Features, Missing, Notice, SubgroupOps, Wants,
};

mod recorded;

use recorded::{GIB, adapters, amdvlk_r9700, h100, intel_igpu, lavapipe, listed, nvk, r9700};

fn choose(adapters: &[AdapterFacts]) -> DevicePlan {
    DevicePlan::choose(adapters, &Wants::default()).unwrap()
}

fn choose_device(adapters: &[AdapterFacts], device: DeviceSelector) -> Result<DevicePlan, Error> {
    DevicePlan::choose(adapters, &Wants::default().with_device(device))
}

fn name(name: &str) -> DeviceSelector {
    DeviceSelector::Name(name.to_owned())
}

/// Every order of the list, each with indices as the loader would give them.
fn orders(facts: &[AdapterFacts]) -> Vec<Vec<AdapterFacts>> {
    if facts.is_empty() {
        return vec![Vec::new()];
    }
    let mut orders = Vec::new();
    for first in 0..facts.len() {
        let mut rest = facts.to_vec();
        let head = rest.remove(first);
        for mut tail in self::orders(&rest) {
            tail.insert(0, head.clone());
            orders.push(listed(tail));
        }
    }
    orders
}

#[test]
fn an_h100_gets_its_universal_family_for_compute_and_its_copy_family_for_transfers() {
    let plan = choose(&adapters([h100()]));
    assert_eq!((plan.compute_family, plan.second_compute, plan.transfer_family), (0, true, Some(1)));
    assert_eq!(plan.subgroup_width, 32);
    assert!(plan.features.contains(Features::COOPERATIVE_MATRIX | Features::CALIBRATED_TIMESTAMPS));
    assert_eq!(plan.notices, []);
}

#[test]
fn cooperative_matrices_are_used_where_they_are_listed_and_wanted() {
    let plan = choose(&adapters([h100()]));
    assert_eq!((plan.byte_matrix_depth(), plan.multiplies_halves()), (Some(32), true));
    let without = |change: fn(&mut AdapterFacts)| {
        let mut facts = h100();
        change(&mut facts);
        choose(&adapters([facts]))
    };
    let plan = without(|facts| facts.features.remove(Features::SHADER_FLOAT16));
    assert_eq!((plan.byte_matrix_depth(), plan.multiplies_halves()), (Some(32), false));
    let plan = without(|facts| facts.matrix_shapes.retain(|shape| shape.k == 16));
    assert_eq!((plan.byte_matrix_depth(), plan.multiplies_halves()), (None, true));
    let mut other_driver = r9700();
    other_driver.features |= Features::COOPERATIVE_MATRIX;
    other_driver.matrix_shapes = h100().matrix_shapes;
    let plan = choose(&adapters([other_driver]));
    assert_eq!((plan.byte_matrix_depth(), plan.multiplies_halves()), (Some(32), true));
    let plan = DevicePlan::choose(&adapters([h100()]), &Wants::default().without_matrix_units()).unwrap();
    assert_eq!((plan.byte_matrix_depth(), plan.multiplies_halves()), (None, false));
}

#[test]
fn an_r9700_computes_apart_from_graphics_on_32_of_its_32_to_64_lanes() {
    let plan = choose(&adapters([r9700()]));
    assert_eq!((plan.compute_family, plan.transfer_family), (1, None));
    assert_eq!((plan.adapter.subgroup.default, plan.subgroup_width), (64, 32));
    assert_eq!(plan.notices, []);
}

#[test]
fn an_integrated_gpu_is_pinned_to_32_lanes() {
    let plan = choose(&adapters([intel_igpu()]));
    assert_eq!((plan.compute_family, plan.transfer_family, plan.subgroup_width), (0, None, 32));
}

#[test]
fn a_processor_is_used_when_nothing_else_exists_and_said_so() {
    let plan = choose(&adapters([lavapipe()]));
    assert_eq!(plan.adapter.kind, AdapterKind::Cpu);
    assert_eq!((plan.compute_family, plan.transfer_family, plan.subgroup_width), (0, None, 8));
    assert!(!plan.second_compute, "its family has one queue");
    let name = plan.adapter.name.clone();
    assert_eq!(plan.notices, [Notice::CpuDevice { name: name.clone() }, Notice::SubgroupWidth { name, width: 8 }]);
}

#[test]
fn discrete_comes_before_integrated_before_processor_in_any_order() {
    for list in orders(&[lavapipe(), intel_igpu(), h100()]) {
        assert_eq!(choose(&list).adapter.name, h100().name);
    }
    for list in orders(&[lavapipe(), intel_igpu()]) {
        let plan = choose(&list);
        assert_eq!((plan.adapter.name, plan.notices), (intel_igpu().name, vec![]));
    }
}

#[test]
fn of_two_discrete_cards_the_larger_memory_wins_and_then_the_first() {
    for list in orders(&[r9700(), h100()]) {
        assert_eq!(choose(&list).adapter.name, h100().name);
    }
    let (mut a, mut b) = (r9700(), r9700());
    (a.device_uuid[0], b.device_uuid[0]) = (1, 2);
    (a.pci, b.pci) = (None, None);
    for list in orders(&[a, b]) {
        assert_eq!(choose(&list).adapter.index, 0, "two cards of one model are two cards, and the first is taken");
        assert!(choose_device(&list, DeviceSelector::Index(1)).is_ok());
    }
}

#[test]
fn a_card_seen_through_two_drivers_is_one_card_with_the_better_driver() {
    let mut other = amdvlk_r9700();
    other.name = "Another name of this card".to_owned();
    for list in orders(&[other, r9700(), lavapipe()]) {
        assert_eq!(choose(&list).adapter.driver.name, "radv");
        // The name that only the other driver gives it still finds the card, through that driver.
        let plan = choose_device(&list, name("another name")).unwrap();
        assert_eq!(plan.adapter.driver.name, "AMD open-source driver");
    }
}

#[test]
fn duplicates_are_recognised_by_uuid_by_bus_and_by_model() {
    let recognised = |radv: AdapterFacts, amdvlk: AdapterFacts| {
        for list in orders(&[radv, amdvlk]) {
            assert_eq!(choose(&list).adapter.driver.name, "radv", "the better driver in any order");
            assert_eq!(choose_device(&list, name("r9700")).unwrap().adapter.driver.name, "radv");
        }
    };
    // The same UUID; the bus says nothing.
    let (mut a, mut b) = (r9700(), amdvlk_r9700());
    (a.device_uuid, b.device_uuid) = ([7; 16], [7; 16]);
    (a.pci, b.pci) = (None, None);
    recognised(a, b);
    // Other UUIDs, the same place on the bus.
    assert_ne!(r9700().device_uuid, amdvlk_r9700().device_uuid);
    assert_eq!(r9700().pci, amdvlk_r9700().pci);
    recognised(r9700(), amdvlk_r9700());
    // Other UUIDs, no bus: the same model.
    let mut b = amdvlk_r9700();
    b.pci = None;
    recognised(r9700(), b);
}

#[test]
fn two_cards_through_two_drivers_are_two_cards() {
    let second = |mut facts: AdapterFacts| {
        facts.device_uuid[15] = 2;
        facts.pci = facts.pci.map(|p| zinc_vk::PciAddress { bus: p.bus + 1, ..p });
        // Distinguishable, and the larger of the two.
        facts.heaps[0].bytes += GIB;
        facts
    };
    let (radv, amdvlk) = ([r9700(), second(r9700())], [amdvlk_r9700(), second(amdvlk_r9700())]);
    for list in [
        adapters([radv[0].clone(), radv[1].clone(), amdvlk[0].clone(), amdvlk[1].clone()]),
        adapters([amdvlk[0].clone(), radv[0].clone(), amdvlk[1].clone(), radv[1].clone()]),
        // Without the bus, cards of one model are matched by their position.
        adapters([radv, amdvlk].concat().into_iter().map(|facts| AdapterFacts { pci: None, ..facts })),
    ] {
        let plan = choose(&list);
        assert_eq!(plan.adapter.driver.name, "radv");
        assert_eq!(plan.adapter.heaps[0].bytes, second(r9700()).heaps[0].bytes, "the second card, by its memory");
    }
}

#[test]
fn a_driver_that_lacks_something_loses_its_card_to_one_that_does_not() {
    // The vendor's driver comes first by rank, but is too old.
    let mut old = h100();
    old.features -= Features::TIMELINE_SEMAPHORE;
    for list in orders(&[old, nvk()]) {
        assert_eq!(choose(&list).adapter.driver.name, "NVK");
    }
    for list in orders(&[h100(), nvk()]) {
        assert_eq!(choose(&list).adapter.driver.name, "NVIDIA");
    }
}

#[test]
fn a_driver_listed_twice_is_one_card() {
    for list in orders(&[lavapipe(), lavapipe()]) {
        let plan = choose(&list);
        assert_eq!(plan.adapter.index, 0);
    }
}

#[test]
fn what_is_missing_is_named() {
    let mut facts = intel_igpu();
    facts.features -= Features::TIMELINE_SEMAPHORE | Features::BUFFER_DEVICE_ADDRESS;
    facts.subgroup.ops -= SubgroupOps::SHUFFLE;
    for family in &mut facts.families {
        family.abilities -= zinc_vk::QueueAbilities::COMPUTE;
    }
    let error = DevicePlan::choose(&adapters([facts]), &Wants::default()).unwrap_err();
    let text = error.to_string();
    for part in [
        "Intel(R) Iris(R) Xe Graphics",
        "timeline_semaphore, buffer_device_address",
        "subgroup operations in compute shaders: shuffle",
        "a compute queue",
    ] {
        assert!(text.contains(part), "`{part}` in `{text}`");
    }
    match error {
        Error::NoSuitableDevice { adapters } => assert_eq!(
            adapters[0].missing,
            [
                Missing::Features(Features::TIMELINE_SEMAPHORE | Features::BUFFER_DEVICE_ADDRESS),
                Missing::SubgroupOps(SubgroupOps::SHUFFLE),
                Missing::ComputeQueue
            ]
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_required_feature_is_required() {
    for (feature, _) in Features::REQUIRED.iter_names().map(|(name, f)| (f, name)) {
        let mut facts = r9700();
        facts.features -= feature;
        match DevicePlan::choose(&adapters([facts]), &Wants::default()) {
            Err(Error::NoSuitableDevice { adapters }) => {
                assert_eq!(adapters[0].missing, [Missing::Features(feature)]);
            }
            other => panic!("{feature:?}: {other:?}"),
        }
    }
    // And nothing else is.
    let mut facts = r9700();
    facts.features = Features::REQUIRED;
    facts.subgroup.ops = SubgroupOps::REQUIRED;
    assert!(DevicePlan::choose(&adapters([facts]), &Wants::default()).is_ok());
}

#[test]
fn an_old_api_is_refused_by_its_version_alone() {
    let mut facts = intel_igpu();
    facts.api_version = zinc_vk::ApiVersion { major: 1, minor: 1, patch: 300 };
    facts.features = Features::empty();
    let error = DevicePlan::choose(&adapters([facts]), &Wants::default()).unwrap_err();
    assert!(error.to_string().contains("lacks Vulkan 1.2.0 (it has Vulkan 1.1.300)"), "{error}");
}

#[test]
fn a_gpu_that_lacks_something_is_passed_over_for_the_next_gpu_with_a_notice() {
    let mut broken = h100();
    broken.features -= Features::SHADER_INT64;
    for list in orders(&[broken, intel_igpu(), lavapipe()]) {
        let plan = choose(&list);
        assert_eq!(plan.adapter.name, intel_igpu().name);
        let [Notice::PassedOver(unsuitable)] = &plan.notices[..] else { panic!("{:?}", plan.notices) };
        assert_eq!(unsuitable.missing, [Missing::Features(Features::SHADER_INT64)]);
    }
}

#[test]
fn a_gpu_that_lacks_something_is_never_replaced_by_the_processor_unasked() {
    let mut broken = intel_igpu();
    broken.features -= Features::TIMELINE_SEMAPHORE;
    for list in orders(&[broken, lavapipe()]) {
        match DevicePlan::choose(&list, &Wants::default()) {
            Err(Error::NoSuitableDevice { adapters }) => {
                assert_eq!(adapters.len(), 1);
                assert_eq!(adapters[0].name, intel_igpu().name);
            }
            other => panic!("{other:?}"),
        }
        let plan = choose_device(&list, name("llvmpipe")).unwrap();
        assert_eq!(plan.adapter.kind, AdapterKind::Cpu);
        assert!(plan.notices.iter().any(|n| matches!(n, Notice::CpuDevice { .. })), "asked for, and still said");
    }
}

#[test]
fn a_device_is_found_by_index_and_by_part_of_its_name() {
    let list = adapters([lavapipe(), h100(), intel_igpu()]);
    assert_eq!(choose_device(&list, DeviceSelector::Index(2)).unwrap().adapter.name, intel_igpu().name);
    assert_eq!(choose_device(&list, name("iris")).unwrap().adapter.index, 2);
    assert_eq!(choose_device(&list, name("h100")).unwrap().adapter.index, 1);
    // A name that fits several takes the best of them.
    assert_eq!(choose_device(&list, name("")).unwrap().adapter.index, 1);
}

#[test]
fn a_device_that_does_not_exist_is_an_error_that_lists_those_that_do() {
    let list = adapters([lavapipe(), h100()]);
    for selector in [DeviceSelector::Index(2), name("Voodoo")] {
        let error = choose_device(&list, selector.clone()).unwrap_err();
        assert!(matches!(&error, Error::NoSuchDevice { selector: s, .. } if *s == selector));
        let text = error.to_string();
        assert!(text.contains(&format!("answers to {selector}")), "{text}");
        assert!(text.contains("0: llvmpipe") && text.contains("1: NVIDIA H100"), "{text}");
    }
    assert!(matches!(DevicePlan::choose(&[], &Wants::default()), Err(Error::NoDevice)));
}

#[test]
fn a_device_that_was_asked_for_and_lacks_something_is_an_error() {
    let mut broken = intel_igpu();
    broken.features -= Features::SYNCHRONIZATION2;
    let list = adapters([broken, h100()]);
    assert!(matches!(choose_device(&list, name("iris")), Err(Error::NoSuitableDevice { .. })));
}

#[test]
fn a_subgroup_width_is_taken_if_the_device_can_run_it() {
    let width = |facts: AdapterFacts, subgroup: u32| {
        DevicePlan::choose(&adapters([facts]), &Wants::default().with_subgroup(subgroup))
            .map(|plan| plan.subgroup_width)
    };
    assert_eq!(width(r9700(), 64).unwrap(), 64);
    assert_eq!(width(r9700(), 32).unwrap(), 32);
    assert_eq!(width(intel_igpu(), 8).unwrap(), 8);
    for (facts, requested, min, max) in [
        (r9700(), 16, 32, 64),
        (r9700(), 128, 32, 64),
        (r9700(), 48, 32, 64),
        (r9700(), 0, 32, 64),
        (lavapipe(), 32, 8, 8),
        (h100(), 64, 32, 32),
    ] {
        match width(facts, requested) {
            Err(Error::SubgroupWidth { requested: r, min: a, max: b, .. }) => {
                assert_eq!((r, a, b), (requested, min, max));
            }
            other => panic!("{requested}: {other:?}"),
        }
    }
}

#[test]
fn a_width_that_cannot_be_chosen_is_the_default_one() {
    let mut facts = r9700();
    facts.subgroup.selectable = false;
    let plan = choose(&adapters([facts]));
    assert_eq!(plan.subgroup_width, 64);
    assert_eq!(plan.notices.len(), 1, "{:?}", plan.notices);
}

#[test]
fn video_queues_are_no_transfer_queues() {
    let mut facts = h100();
    facts.families.remove(1);
    assert_eq!(choose(&adapters([facts])).transfer_family, None);
}

#[test]
fn conditions_are_used_where_they_are_known_to_be_cheap() {
    for (mut facts, used) in [(h100(), true), (lavapipe(), true), (r9700(), false), (intel_igpu(), false)] {
        facts.features.insert(Features::CONDITIONAL_DISPATCH);
        let plan = choose(&adapters([facts]));
        assert_eq!(plan.features.contains(Features::CONDITIONAL_DISPATCH), used, "{}", plan.adapter.driver.name);
    }
}

#[test]
fn drivers_whose_queries_wait_are_known() {
    assert!(lavapipe().driver.waits_for_queries());
    for facts in [h100(), nvk(), r9700(), amdvlk_r9700(), intel_igpu()] {
        assert!(!facts.driver.waits_for_queries(), "{}", facts.driver.name);
    }
}

#[test]
fn drivers_that_emulate_timelines_are_known() {
    assert!(lavapipe().driver.emulates_timelines());
    for facts in [h100(), nvk(), r9700(), amdvlk_r9700(), intel_igpu()] {
        assert!(!facts.driver.emulates_timelines(), "{}", facts.driver.name);
    }
}
