//! The choice of device, queues and subgroup width: a pure function of [`AdapterFacts`] and [`Wants`].
//!
//! **Order.** A discrete GPU is preferred to an integrated one, that to a virtual one, that to other devices, and those to the CPU.
//! Among devices of one kind, the one with more device memory comes first, then the one that the loader lists first.
//!
//! **Duplicates.** One card can be listed several times: through two drivers (RADV and AMDVLK, the vendor's own and NVK) or
//! through two manifests of one driver. Two entries are one card if their device UUIDs agree; or, for different drivers, if
//! their PCI addresses agree; or, where a driver tells no address, if vendor id, device id and the position among the
//! driver's cards of that id agree. Kept is the entry whose driver has everything that is needed, then the driver that is
//! better supported for its vendor (`driver_rank`), then the newer API version, then the first listed.
//!
//! **CPU devices** are used when they are asked for or when nothing else exists, never because a GPU lacks something: that
//! is an error which names what is missing.

use std::fmt;
use std::path::PathBuf;

use ash::vk;

use crate::error::{Error, Result};
use crate::facts::{AdapterFacts, AdapterKind, ApiVersion, Features, QueueAbilities, QueueFamily, SubgroupOps};
use crate::instance::NEEDED;

/// Lanes of a subgroup that shaders are tuned for. Pipelines require this width wherever the device can run it.
const PREFERRED_SUBGROUP: u32 = 32;

/// PCI vendor id of NVIDIA.
const NVIDIA: u32 = 0x10de;

/// How a user names a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceSelector {
    /// The device with this [`AdapterFacts::index`].
    Index(usize),
    /// The best device whose name contains this text, in upper or lower case.
    Name(String),
}

impl fmt::Display for DeviceSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => write!(f, "index {index}"),
            Self::Name(name) => write!(f, "the name \"{name}\""),
        }
    }
}

/// What the caller asks of a device. The default leaves every choice to [`DevicePlan::choose`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Wants {
    /// The device to use, and no other.
    pub device: Option<DeviceSelector>,
    /// The lanes of a subgroup to use, a power of two that the device offers.
    pub subgroup: Option<u32>,
    /// Whether cooperative matrices are left alone even where they could be used.
    pub without_matrix_units: bool,
}

impl Wants {
    /// Returns these wants with the device that `selector` names, and no other.
    #[must_use]
    pub fn with_device(mut self, selector: DeviceSelector) -> Self {
        self.device = Some(selector);
        self
    }

    /// Returns these wants without cooperative matrices.
    #[must_use]
    pub fn without_matrix_units(mut self) -> Self {
        self.without_matrix_units = true;
        self
    }

    /// Returns these wants with subgroups of `lanes` lanes, and no other width.
    #[must_use]
    pub fn with_subgroup(mut self, lanes: u32) -> Self {
        self.subgroup = Some(lanes);
        self
    }
}

/// Something that a device lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// The API version is too low; this is the one that the device has.
    Version(ApiVersion),
    /// These features are absent.
    Features(Features),
    /// These subgroup operations are absent in compute shaders.
    SubgroupOps(SubgroupOps),
    /// No queue family runs compute pipelines.
    ComputeQueue,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn names<'a>(f: &mut fmt::Formatter<'_>, names: impl Iterator<Item = &'a str>) -> fmt::Result {
            for (i, name) in names.enumerate() {
                write!(f, "{}{}", if i == 0 { "" } else { ", " }, name.to_ascii_lowercase())?;
            }
            Ok(())
        }
        match self {
            Self::Version(has) => {
                write!(f, "{NEEDED} (it has {has})")
            }
            Self::Features(features) => names(f, features.iter_names().map(|(name, _)| name)),
            Self::SubgroupOps(ops) => {
                f.write_str("subgroup operations in compute shaders: ")?;
                names(f, ops.iter_names().map(|(name, _)| name))
            }
            Self::ComputeQueue => f.write_str("a compute queue"),
        }
    }
}

/// An adapter that cannot be used, with the reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unsuitable {
    /// Name of the adapter.
    pub name: String,
    /// Name and version of the adapter's driver.
    pub driver: String,
    /// What the adapter lacks; never empty.
    pub missing: Vec<Missing>,
}

impl fmt::Display for Unsuitable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}) lacks ", self.name, self.driver)?;
        for (i, missing) in self.missing.iter().enumerate() {
            write!(f, "{}{missing}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// Something about the choice that a user should be told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// The device is the host's own processor.
    CpuDevice {
        /// Name of the device.
        name: String,
    },
    /// An adapter that would have been preferred cannot be used.
    PassedOver(Unsuitable),
    /// The subgroup width cannot be 32 on this device.
    SubgroupWidth {
        /// Name of the device.
        name: String,
        /// The width used.
        width: u32,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CpuDevice { name } => write!(f, "{name} runs on the processor; expect a fraction of a GPU's speed"),
            Self::PassedOver(unsuitable) => write!(f, "not used: {unsuitable}"),
            Self::SubgroupWidth { name, width } => {
                write!(f, "{name} runs subgroups of {width} lanes; the kernels are tuned for {PREFERRED_SUBGROUP}")
            }
        }
    }
}

/// The device to use, and how to open it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DevicePlan {
    /// The adapter chosen.
    pub adapter: AdapterFacts,
    /// Lanes of a subgroup in every pipeline.
    pub subgroup_width: u32,
    /// Queue family of the compute queue.
    pub compute_family: u32,
    /// Whether the compute family has a second queue, which becomes the second compute queue.
    pub second_compute: bool,
    /// Queue family of the transfer queue; `None` where the device has no family that only copies.
    pub transfer_family: Option<u32>,
    /// Features to enable: all that the adapter has, except those that only a [`Compiler`](crate::Compiler) uses, those that
    /// the driver is not known to do cheaply ([`DriverFacts::leaves_out_cheaply`](crate::DriverFacts::leaves_out_cheaply)), and
    /// cooperative matrices where they are not wanted.
    pub features: Features,
    /// Directory of the pipeline cache; `None` keeps it in memory.
    pub pipeline_cache_dir: Option<PathBuf>,
    /// Notices about this choice that a user should see, such as a device that was passed over.
    pub notices: Vec<Notice>,
}

impl DevicePlan {
    /// Chooses among `adapters`, which may come in any order.
    ///
    /// # Errors
    /// [`Error::NoDevice`] for an empty list, [`Error::NoSuchDevice`] if the selector names none,
    /// [`Error::NoSuitableDevice`] with what each candidate lacks, [`Error::SubgroupWidth`].
    pub fn choose(adapters: &[AdapterFacts], wants: &Wants) -> Result<Self> {
        if adapters.is_empty() {
            return Err(Error::NoDevice);
        }
        let mut notices = Vec::new();
        let adapter = match &wants.device {
            Some(selector) => named(adapters, selector)?,
            None => best(adapters, &mut notices)?,
        };
        if adapter.kind == AdapterKind::Cpu {
            notices.push(Notice::CpuDevice { name: adapter.name.clone() });
        }
        let subgroup_width = subgroup_width(adapter, wants.subgroup)?;
        if subgroup_width != PREFERRED_SUBGROUP && wants.subgroup.is_none() {
            notices.push(Notice::SubgroupWidth { name: adapter.name.clone(), width: subgroup_width });
        }
        // `missing` has checked that there is one.
        let compute_family = compute_family(adapter).unwrap_or_default();
        let mut unused = Features::PIPELINE_STATISTICS;
        unused.set(Features::CONDITIONAL_DISPATCH, !adapter.driver.leaves_out_cheaply());
        unused.set(Features::COOPERATIVE_MATRIX, wants.without_matrix_units);
        Ok(Self {
            adapter: adapter.clone(),
            subgroup_width,
            compute_family,
            second_compute: adapter.families.get(compute_family as usize).is_some_and(|family| family.queues > 1),
            transfer_family: transfer_family(adapter),
            features: adapter.features - unused,
            pipeline_cache_dir: None,
            notices,
        })
    }

    /// The greatest depth of products of signed bytes by cooperative matrices, as [`AdapterFacts::byte_matrix_depth`], if the device is opened
    /// with what shaders need for them.
    pub fn byte_matrix_depth(&self) -> Option<u32> {
        let needed = Features::COOPERATIVE_MATRIX | Features::SHADER_INT8 | Features::VULKAN_MEMORY_MODEL;
        self.adapter.byte_matrix_depth().filter(|_| self.features.contains(needed))
    }

    /// Whether the device is opened with what shaders need for products of halves by cooperative matrices, and has them: see
    /// [`AdapterFacts::multiplies_halves`].
    pub fn multiplies_halves(&self) -> bool {
        let needed = Features::COOPERATIVE_MATRIX | Features::SHADER_FLOAT16 | Features::VULKAN_MEMORY_MODEL;
        self.adapter.multiplies_halves() && self.features.contains(needed)
    }

    /// Returns this plan with the pipeline cache kept in `dir` between runs.
    #[must_use]
    pub fn with_pipeline_cache_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.pipeline_cache_dir = Some(dir.into());
        self
    }
}

/// The adapters in order of preference, without those that are the same card through another driver.
fn ranked(adapters: &[AdapterFacts]) -> Vec<&AdapterFacts> {
    let mut cards: Vec<&AdapterFacts> = Vec::new();
    for adapter in adapters {
        match cards.iter_mut().find(|card| same_card(adapters, card, adapter)) {
            Some(card) => {
                if quality(adapter) < quality(card) {
                    *card = adapter;
                }
            }
            None => cards.push(adapter),
        }
    }
    cards.sort_by_key(|a| (a.kind, std::cmp::Reverse(a.device_memory_bytes()), a.index));
    cards
}

/// The best usable adapter that `selector` names.
fn named<'a>(adapters: &'a [AdapterFacts], selector: &DeviceSelector) -> Result<&'a AdapterFacts> {
    let no_such = || Error::NoSuchDevice {
        selector: selector.clone(),
        available: adapters.iter().map(|a| format!("{}: {}", a.index, a.name)).collect(),
    };
    let candidates: Vec<&AdapterFacts> = match selector {
        // An index may name a duplicate on purpose, to compare two drivers.
        DeviceSelector::Index(index) => adapters.iter().filter(|a| a.index == *index).collect(),
        DeviceSelector::Name(name) => {
            let name = name.to_lowercase();
            let matches = |a: &&AdapterFacts| a.name.to_lowercase().contains(&name);
            let cards: Vec<&AdapterFacts> = ranked(adapters).into_iter().filter(matches).collect();
            // The name may be the one that only a duplicate's driver gives the card.
            if cards.is_empty() { adapters.iter().filter(matches).collect() } else { cards }
        }
    };
    if candidates.is_empty() {
        return Err(no_such());
    }
    candidates
        .iter()
        .find(|a| missing(a).is_empty())
        .copied()
        .ok_or_else(|| Error::NoSuitableDevice { adapters: candidates.iter().map(|a| unsuitable(a)).collect() })
}

/// The best usable adapter. Those that would have been preferred and lack something are added to `notices`.
fn best<'a>(adapters: &'a [AdapterFacts], notices: &mut Vec<Notice>) -> Result<&'a AdapterFacts> {
    let cards = ranked(adapters);
    let only_cpu = cards.iter().all(|a| a.kind == AdapterKind::Cpu);
    let mut passed = Vec::new();
    for card in cards.iter().filter(|a| only_cpu || a.kind != AdapterKind::Cpu) {
        if missing(card).is_empty() {
            notices.extend(passed.into_iter().map(Notice::PassedOver));
            return Ok(card);
        }
        passed.push(unsuitable(card));
    }
    Err(Error::NoSuitableDevice { adapters: passed })
}

/// Everything that the adapter lacks and must have.
fn missing(adapter: &AdapterFacts) -> Vec<Missing> {
    if adapter.api_version < NEEDED {
        // What an older device says of features has no meaning here.
        return vec![Missing::Version(adapter.api_version)];
    }
    let mut missing = Vec::new();
    let features = Features::REQUIRED - adapter.features;
    if !features.is_empty() {
        missing.push(Missing::Features(features));
    }
    let ops = SubgroupOps::REQUIRED - adapter.subgroup.ops;
    if !ops.is_empty() {
        missing.push(Missing::SubgroupOps(ops));
    }
    if compute_family(adapter).is_none() {
        missing.push(Missing::ComputeQueue);
    }
    missing
}

fn unsuitable(adapter: &AdapterFacts) -> Unsuitable {
    Unsuitable {
        name: adapter.name.clone(),
        driver: format!("{} {}", adapter.driver.name, adapter.driver.info).trim().to_owned(),
        missing: missing(adapter),
    }
}

/// A key by which entries of one card compare: the entry with the lowest key is kept.
fn quality(adapter: &AdapterFacts) -> impl Ord + use<> {
    (
        !missing(adapter).is_empty(),
        driver_rank(adapter.driver.id),
        std::cmp::Reverse(adapter.api_version),
        adapter.index,
    )
}

/// How well a driver supports compute on its vendor's cards: 0 for the driver of choice, 1 for an alternative to it, 2 for an
/// emulation on another API.
fn driver_rank(id: u32) -> u32 {
    match vk::DriverId::from_raw(id.cast_signed()) {
        vk::DriverId::AMD_OPEN_SOURCE | vk::DriverId::AMD_PROPRIETARY | vk::DriverId::MESA_NVK => 1,
        vk::DriverId::MESA_DOZEN | vk::DriverId::MESA_VENUS => 2,
        _ => 0,
    }
}

/// Whether two of the adapters `all` are one card.
fn same_card(all: &[AdapterFacts], a: &AdapterFacts, b: &AdapterFacts) -> bool {
    if a.device_uuid == b.device_uuid && a.device_uuid != [0; 16] {
        return true;
    }
    if a.driver.id == b.driver.id {
        // One driver tells its cards apart.
        return false;
    }
    match (a.pci, b.pci) {
        (Some(a), Some(b)) => a == b,
        _ => {
            (a.vendor_id, a.device_id) == (b.vendor_id, b.device_id)
                && nth_of_its_kind(all, a) == nth_of_its_kind(all, b)
        }
    }
}

/// Position of `adapter` among the cards of its model that its driver lists.
fn nth_of_its_kind(all: &[AdapterFacts], adapter: &AdapterFacts) -> usize {
    let model = |a: &AdapterFacts| (a.driver.id, a.vendor_id, a.device_id);
    all.iter().filter(|a| model(a) == model(adapter) && a.index < adapter.index).count()
}

/// The family of the compute queue.
///
/// On NVIDIA cards the universal family, which also runs graphics, is preferred: it runs a dispatch and its barrier in
/// 2.2 µs, and the family for compute alone in 2.7 µs (H100, driver 580). On other cards a family without graphics is
/// preferred, because it does not share its queue with the desktop.
fn compute_family(adapter: &AdapterFacts) -> Option<u32> {
    let usable = |f: &QueueFamily| f.queues > 0 && f.abilities.contains(QueueAbilities::COMPUTE);
    let universal = |f: &QueueFamily| f.abilities.contains(QueueAbilities::GRAPHICS);
    let prefer_universal = adapter.vendor_id == NVIDIA;
    let find = |wanted: &dyn Fn(&QueueFamily) -> bool| adapter.families.iter().position(wanted);
    find(&|f| usable(f) && universal(f) == prefer_universal).or_else(|| find(&usable)).and_then(|i| i.try_into().ok())
}

/// The first family that copies and does nothing else.
fn transfer_family(adapter: &AdapterFacts) -> Option<u32> {
    let other = QueueAbilities::GRAPHICS | QueueAbilities::COMPUTE | QueueAbilities::VIDEO;
    adapter
        .families
        .iter()
        .position(|f| f.queues > 0 && f.abilities.contains(QueueAbilities::TRANSFER) && !f.abilities.intersects(other))
        .and_then(|i| i.try_into().ok())
}

/// Chooses how many lanes a subgroup has on this adapter.
fn subgroup_width(adapter: &AdapterFacts, requested: Option<u32>) -> Result<u32> {
    let subgroup = &adapter.subgroup;
    let (min, max) =
        if subgroup.selectable { (subgroup.min, subgroup.max) } else { (subgroup.default, subgroup.default) };
    match requested {
        Some(width) if width.is_power_of_two() && (min..=max).contains(&width) => Ok(width),
        Some(requested) => Err(Error::SubgroupWidth { device: adapter.name.clone(), requested, min, max }),
        None if (min..=max).contains(&PREFERRED_SUBGROUP) => Ok(PREFERRED_SUBGROUP),
        None => Ok(subgroup.default),
    }
}
