//! Interfaces of the kernels. Written by `cargo xtask shaders` from the GLSL under `shaders/`; edit that instead.

// Hashes by which `--check` tells whether this file is up to date:
//   3556ce1480b8372a4bad178e1da3ad23449b626098f0836a2b32b3a3dc1d39e1 crates/zinc-kernels/spv/adjust.spv
//   7ae0b94c38c407b94078dcb8b70940db2f5e11a90b255148cf477a346c68bf58 crates/zinc-kernels/spv/advance.spv
//   85d142d274f8ecbc2da9fd44b559279b7a65e1d0e539153a2f008e1266825bc5 crates/zinc-kernels/spv/append.spv
//   f99ef5d282821a079f08afca6caccf69c6724205b5eaef187a8d0a3da17057a9 crates/zinc-kernels/spv/attention.spv
//   3345becd97b5e40a6320e5af18109b173c0747fbacf9d9f31451fb35990a4613 crates/zinc-kernels/spv/attention_rows.spv
//   d44175d04ec924d0a258dd7b25c94ef3294c97a6795a9d5c5e7ce7b0e2bc3244 crates/zinc-kernels/spv/attention_rows_units.emulated.spv
//   8b6a5088fdfb0a19c5a653315ecbee1189925f3b6be05570f91e5df586cbf208 crates/zinc-kernels/spv/attention_rows_units.spv
//   a2757a84213c676cfa3c25f9da7e2f4938690570000982df76fb39ecc8892f9e crates/zinc-kernels/spv/attention_units.emulated.spv
//   095ad1d7a771df41639af33caaa49743aa7ffacfe703668fe90d16956700a813 crates/zinc-kernels/spv/attention_units.spv
//   bcef71576e0e6d00b15d9831f1613634862de12f78eb315b7a6cde30a290db20 crates/zinc-kernels/spv/cancel.spv
//   648435394b49a3a64bbd0ad81ad507b55956f96c9addd2c311566f77f670c42e crates/zinc-kernels/spv/check_bytes_units.emulated.spv
//   ebd38d2b2d82de2ab7c1f0dc5b337c1614ccf33c7d2083b6c800afe36be2d3ad crates/zinc-kernels/spv/check_bytes_units.spv
//   4b2c0422d5dcd08a8c5d8183e8fc6c3096fdb12c971c0d033679cb54144d5ac8 crates/zinc-kernels/spv/check_halves_units.emulated.spv
//   c1b1ef850d3e4ef5fdba4a5a699af29da6ae288a177c48f33026d7815d7cd5da crates/zinc-kernels/spv/check_halves_units.spv
//   c08ceb73ced7b68178c4d438801d0f14e5634b9274514bf4c5464edab3daedeb crates/zinc-kernels/spv/choose.spv
//   839aa797465626f5c6c34bf17282a2b7a988bee79e3ce4c57814097a5d4e9bc7 crates/zinc-kernels/spv/delta_conv.spv
//   8c39cb20abe724b58204267f2fcca259e81c71e3a3c9b1e6634b22d7756a16b6 crates/zinc-kernels/spv/delta_net.spv
//   753fa4764e4d3f81b9b84ac25b0d3d7484ba284563120bba5f86075953441b73 crates/zinc-kernels/spv/dry.spv
//   5ade8fc6e5c8bfa046572a66b28a7de69b506a1068816088e5f997465ebfdf69 crates/zinc-kernels/spv/expert_down.spv
//   67823176ce3476c26f366d2d7faed4722ea48d53bcaf529b281d3f2cdc5bce29 crates/zinc-kernels/spv/gate_up.spv
//   8ba6300555de5fcab762d57b32d814b0a0b757fce3070e8597e65bd84218a54a crates/zinc-kernels/spv/gate_up_mul.in_turn.spv
//   4e5d1f7c7a35583d245398542c1dd7ad6e023d366eaa71bf3ae3399896741bf1 crates/zinc-kernels/spv/gate_up_mul.spv
//   12f94bf1a781908d47d9110330f4d7d26f657889eda0f0873d4cb2852e0d676f crates/zinc-kernels/spv/gate_up_mul_units.emulated.spv
//   178657af96c595e50cd0fb4b39060ec09b9f547d1fc1317fad7d2d2096cde705 crates/zinc-kernels/spv/gate_up_mul_units.spv
//   03c78598e7383cde2d1f8dc6f7f2f3aa10d8302e31a1c2330a862b113f7a1644 crates/zinc-kernels/spv/gather.spv
//   4caeafc5c12c181af93d7d320fa6b7fbbf64291349545fa11cd0a539c79262ad crates/zinc-kernels/spv/head_gate.spv
//   da67009ce5fc79f9c95459a58d22cbdc92b49304473f7d068a5e78f803ca9da3 crates/zinc-kernels/spv/join.spv
//   605c14ca16cbeff35632cea199afaadd1b3a955c19ac722fae62c99266335870 crates/zinc-kernels/spv/last_accepted.spv
//   f6e5510e286bd5ac7351f72ce84d2c07993862e9b5da6db1e2a0d7996edc0fa0 crates/zinc-kernels/spv/last_rows.spv
//   92c2455ada395763f89a5f4b27679e9a5182370ea7ed694d8adc08381a9ca060 crates/zinc-kernels/spv/list.spv
//   c03b96317b31a36717f45d2f700e007ea1ae22278bd8b7bf3bf7d0d37107f956 crates/zinc-kernels/spv/logprob_shares.spv
//   d763856aba280401e5a3677798f9acdd53398c1616454992a8e18e42ddb977fc crates/zinc-kernels/spv/logprobs.spv
//   a854b14055b2f35a3db513b50c1dd89098778450f84f52ce6ecd92a5e4e43d84 crates/zinc-kernels/spv/lookup.spv
//   d1a70230d78674c1fd7a850e8256892ba07a7f8011234d51261d557d5b2a0d08 crates/zinc-kernels/spv/mat_mul.in_turn.spv
//   0fbc0f186674e17c7e838bd2a831e25cdbc6e99b0a05aecb645315526cb51408 crates/zinc-kernels/spv/mat_mul.spv
//   40c1fefc7aee0225628909b5b48f3518cbbfeb25363bc0a296df11e8a02ea69e crates/zinc-kernels/spv/mat_mul_units.emulated.spv
//   d67f39f7811093170a7b2f054f51431a3175dd70ae2a290eb1195f532e35a8fb crates/zinc-kernels/spv/mat_mul_units.spv
//   589e1ed101e5e4e367b1d04f7d5d35c77c73a1c71522736b136896b579391cb4 crates/zinc-kernels/spv/mat_vec.spv
//   daf39b3a6b15b00b0b64a0b5c337d4a90c71d2f58a85ef5d4701f07785fd0a15 crates/zinc-kernels/spv/mtp_norms.spv
//   25ad0a9415decb2bbb1101c561cc1e61f9ba56977d23a871982587fa82ce0f79 crates/zinc-kernels/spv/propose.spv
//   d8f5b2b02e3d68a853ee15cc46e3f806a6314e52229f905fca916a88e01a446b crates/zinc-kernels/spv/read.spv
//   c2da062ee1e7b20a40bbcd7bf135512de28d29da3b650a1eea6b46f6f87ff1cc crates/zinc-kernels/spv/round.spv
//   f260a0884b86520f01f6ccb87c0b3637769d37a6569fd172a407e5645c8f1377 crates/zinc-kernels/spv/route.spv
//   fb221582f45fd3a4a8fa2a12004bc9ec0235cf7c8d300b9d52566213cdb407f2 crates/zinc-kernels/spv/router.spv
//   42240c9ad103aae6cd790aa034a831aa07398456f0642c632df2d49af66565dc crates/zinc-kernels/spv/router_mul.spv
//   df59162a0df6f8cd788eeb7af276112b164c8049d84aa49b4b3748aab6efa813 crates/zinc-kernels/spv/sample.spv
//   818f95f5be67aca188272dbda9bcc7937bdfa48ea57a78181acff2c317cb4dee shaders/adjust.comp
//   972bc642d4832793bc8a88648eaf6d30fa73eed11255108961ca777ba3b9a8f3 shaders/advance.comp
//   a56f7c79291cd2645772dfede90217598bb4cc29c20d44a5fcabe50855f98b6d shaders/append.comp
//   e34088010b6790d2285c912e78dea9c077d4eb3b379b3c40195366952697d48e shaders/attention.comp
//   4b5497a7a3a5c1b36dc1e0987c4fa373dc5e0faa240e6c026ff5f00430381384 shaders/attention_rows.comp
//   b98255ad14cf946d4dc2575f60ce1ef8bbbe2e74b325fa9380f2e884a1afc94f shaders/attention_rows_units.comp
//   7296a48a792ba7871749bbfaff2e35b8c28ade5d92553878bad1a8f305021a84 shaders/attention_units.comp
//   1a30d80190c93277ad6d70bd33c1c821a563b6e825ada4d844494fef8c847027 shaders/cancel.comp
//   2e2d505a6e256092ad78a6f3294e728a1a57b8e5cd458bc9e3397433b5dcc5a6 shaders/check_bytes_units.comp
//   7713543be0025e62e17e2885a9e1e32fded8286aae4b34bb5fd65b58f2c8db12 shaders/check_halves_units.comp
//   50145ded1306ec3e44494fbea8f581769c6482040a720be8033042a76e912226 shaders/choose.comp
//   ad831c05fc911074dd711859e694e66e4878e0b652559e5879ecfc9eac6834c0 shaders/delta_conv.comp
//   f61000f982be62006ef1420bac522a367978955d4eac5f1952d1f105de7423a9 shaders/delta_net.comp
//   3b00c242f801e16e80ae0c1f49d67fdb9984ccd74f135152cf6d1b8e1af1c749 shaders/dry.comp
//   18b62441d4e5bad042877fadb87aa463a5165db1a03d925657beeed2570baa51 shaders/expert_down.comp
//   aba5fbcb7416a29b35cd3eab5e6801d41e6824400e283966cd318f33b03380ab shaders/gate_up.comp
//   40f4186fe58df122bb81edf16b7ea854cb20d7a95f28ad23c0d178a9a1f5e246 shaders/gate_up_mul.comp
//   51b0dc7f4cad9ecefb8dc6e3e5e5eefb302953e73d7b95d7d68e0b0b17340530 shaders/gate_up_mul_units.comp
//   e49280e928b95fdbbcbeb3a789571089d0ebb77e4efb6a85750629e26ffb3175 shaders/gather.comp
//   944b5ae3b24efc1bae4b06d798b40f04f5ca30b451cc0dc31f3d55b7042fe472 shaders/head_gate.comp
//   0862fe1e2ba513135005124704fe5852d65af6f3d127bca898baf9ec04590907 shaders/include/activations.glsl
//   551c3cb2029ff2b4af6c3bdd88b2e4a85f97707d17852ef2928b943a89ac1ea0 shaders/include/arrivals.glsl
//   e035bc42e94927cc63d9ec84d9140eb93ce90cbc6933edeb43d331a14869249d shaders/include/attention_share.glsl
//   25f997cc3ea14eaa446d1f898601fed955c740c5a53ed8384f3dec24a2096a4c shaders/include/attention_step.glsl
//   2721c4bc37b6ab217d2b3b3c2afb24a2cb55e5fb42c5599a44bf8952b9c23c28 shaders/include/attention_tile.glsl
//   b0228d4abcc381217cf0cef3341cf3a5d08a75aa26d04b071ea37d0f56c38e39 shaders/include/blocks.glsl
//   5db63629fbd1f812efc14d998a0a5e1e807d0414478d9b34be2d21532ef32876 shaders/include/cache.glsl
//   b28948b79f7d62c4c4cb1370e4fb66b7c6aa52e3bc692c6dad36d8c30ab394fc shaders/include/cache_rows.glsl
//   0b8cb1aa097de89c6aeaf5c34fe3d630ca7992e002f40d32490e7f4c26cc5ac0 shaders/include/candidates.glsl
//   dc102755dc396ea4208089bcfa75f083ef5cfe22b88330c8abfbdba61c8e9346 shaders/include/choice.glsl
//   10e7f90bcf627a51a30909bbdfb3b609f0af82eff76cd6ba808c197053040d4d shaders/include/delta_state.glsl
//   7a94bca231ae04ec1f7204d93b20efdff80fec3feb7b1cd9cdde8ebb161c6476 shaders/include/drafts.glsl
//   8625d0b5593db7bc0eea53cdc8410f653179be499cbad132b919b2d1538ae777 shaders/include/float_operand.glsl
//   20bbac399ffe8cd02dc4472eb6a7fa9b3786e650c0b3797a0c529e0a1eb5b05e shaders/include/float_products.glsl
//   ec18bb07006832bef1b3cc13babf4a699e66daf9c20b4f4a3d2ce34390cfea79 shaders/include/formats.glsl
//   7a0020eaeb6c36b5d4192623deca575e86c9689f411c55c65392f610c848436f shaders/include/fragments.glsl
//   7ef87a3e769d8c5b04f51b3852af8123ad2720b1566b726b85218945b8e18621 shaders/include/gate_and_up.glsl
//   af3aa66fe592e9448ab37992ba4c82e75883ae1672e2feebc715d908e23f9848 shaders/include/grids.glsl
//   3442885db42488516d60044e1d016565bce2bd74a78b320f6888d0ca4791b108 shaders/include/group_sums.glsl
//   4d959bca48e7e338997639b47c24ee7546bbbf119dcc8d690031964485954f05 shaders/include/group_values.glsl
//   3c2eb786d9ae5f1e5cff19d56d18bd3c1c7996980719f62c29bf7048e9c59866 shaders/include/half.glsl
//   f013a443a00a21c5f0e64d99aa663d99f1fdb1c51edd393268910b1b85bcb473 shaders/include/half_fragments.glsl
//   1d36cdc3d431fcc8f8698fe7a0337180f779450a16f88bc534ad0aaaf7d3b1f5 shaders/include/heads.glsl
//   76af5c97d0be7903805b0ce1bbddf59ee3cf3a785feab9f394a62c2761e1a89f shaders/include/integers.glsl
//   ded3bfde515e7ab02792762d33a885f1d3c7d97123537a127fdd6f89abcf5c01 shaders/include/lane.glsl
//   395566d4c80060a5e04e70c92c0381ea29fe8070dbfc2492e263b9c33b34cc5a shaders/include/listing.glsl
//   2408b987abf9353ddf8508b8b7c8b1ed61bac1fdf4a0bc48c89add1fc0bd9504 shaders/include/logprob_report.glsl
//   904e65048f0f2345f2d27328044bb12a5d32764563cc416483e3573d05770c18 shaders/include/mass.glsl
//   cae9cf8c4ee7a2207f0b83d2b8a9fb3fb8a17b50b457c1a3f766b6caedf637fd shaders/include/matrices.glsl
//   499643c4c3f02ff6eb0b36bd8ccef9e9d757c99e24a6e77072cae8581be59eda shaders/include/memory.glsl
//   0edc1635583011bf5e870ce9d4b1cea32f61a59106d7995514758dfc22098243 shaders/include/operand.glsl
//   d0d52c12902ade7a018bcf214b680e8fdb4b918ee401eaec0212d56f7a6a5cf3 shaders/include/order.glsl
//   51f4f0f9fc75dff280653cc7dc3da9c7178b5b38e12f92faa0b4c97477afa916 shaders/include/products.glsl
//   0e01c9a5b498da49e78f4d2046876e846d7ba044f376b6d023d6334359ff60b7 shaders/include/quarters.glsl
//   5fef60b942973a43068521ae27f0244c213f2f2e860755f1008ad7bcba8da434 shaders/include/random.glsl
//   3f1e0099fd91ae7a7afbcac4a7229e1d51e8f262adfe31898fdbd05cbff2b71b shaders/include/rows.glsl
//   f3c4bc23670accd114885f0711030dceb12553f3f59bffe745b8f80ce724ff68 shaders/include/sampler.glsl
//   c78dc9e29d82ede5356e0f6e0813e6ea813f51811ac374dc595ce092d12a84c1 shaders/include/select.glsl
//   ed66c73cccd21355dc23b85fecf6a16bedc9889d14df343cadb140919d54725d shaders/include/shared_out.glsl
//   d3256ac1410586a29ff1413a293325ed9959e45f68cbee6fdc2be3ea8436ce4e shaders/include/shares.glsl
//   40ab052b7cfca41854aa5172ee0d4062a924bcda589200f687f11b0e52da95c2 shaders/include/sigmoid.glsl
//   2e13e962b93c28a2c763975db744712b64b9275b3165779f8e8ab44e9f3539b3 shaders/include/silu.glsl
//   ee5c6f822e0182f9be749e2099a60fc3ad3262be89ed601541e20a10727ed6f7 shaders/include/splits.glsl
//   cd1bc9671a5e239b83a54f99e5a7544c2204c5972c5c5f40e819ee41b0bda791 shaders/include/subgroup.glsl
//   fe0c1e9d53a0bd86c290161008e4afed57337de6e8222f4b7cc32d27a72fe7a7 shaders/include/swiglu.glsl
//   3e20b1235895c5448929e53b30755625b6429a30efc34b25e57292cb8901f2d5 shaders/include/tile_list.glsl
//   89c40019ee3cb97df68f0a8fc3554ed7619905ac02a554d0eede1a7e55fac527 shaders/include/tile_results.glsl
//   fb582c102ee860d2b8a320d4f756faebc819d671a44bdc7b1b0b932b3041846c shaders/include/tile_vectors.glsl
//   09749344f383298a2ad00ac9f3107e4f7cb085b00a25ad08b1f7037a2139cfb7 shaders/include/tiles.glsl
//   b4a48e96d53399d8cfff33cb2e1b3b3385c8d5dd16788d711c6692e496f42d09 shaders/include/window.glsl
//   8a8f80f981217e4535a9057bae6a8bd96b75346dc8377f643929fceb9442b96a shaders/include/workgroup.glsl
//   8306ecea39f2a560c8bdc9625021d64ebe169c30e32a17518572700ec5e1879d shaders/join.comp
//   e1610b21c7049f6306c21cf60b76d0a09130bd709fb378918b282bc31442daa2 shaders/last_accepted.comp
//   889aea356f9e600216787d6950be0f4c0118b30d7771cc1e918ec4790e1ec59b shaders/last_rows.comp
//   7c33ec4f9e1709577a7917e5ce3f9e76ddbb036a1e5afd167490feb83838e73d shaders/list.comp
//   7ca9d00c78bfe0149995fb3a09022cf549c21c76d7b3dfec829831a795c17cca shaders/logprob_shares.comp
//   8d7d26e488acee4e5aca7d726ad970e6ac06b4dca238b17742955b8d8ce4b1ac shaders/logprobs.comp
//   e99bca601be6a87e5538468a43e0031cf356c136534dc1b718b000f78c21f1b0 shaders/lookup.comp
//   518d466d52fe9e080c0ed59f005997189ee44910b5a6b2d9506616b7e33ac2d4 shaders/mat_mul.comp
//   e76f5a916bd3ce2eb84d539b3f2c68c7a72d79354bf3a9cadd8fe2e39385d7de shaders/mat_mul_units.comp
//   4bd32ef5e1696dd28fcb32eecdb37027eac0613c04876594d9f81cbd108221b2 shaders/mat_vec.comp
//   48ea5ec8e04bc8c86aab2b72fde2a06899d493305910a332183635f47c521ac5 shaders/mtp_norms.comp
//   2244208c812146b2c3d6bb2434b48f45a38b6f7ef8903b8096aa1b345fb85a66 shaders/propose.comp
//   09f93cf2f6c1e3f492cfa4ba61a84ae08aded152ebf8838308377786fd4a9df5 shaders/read.comp
//   e6e455cf76350246c1cc857a3b11c0f83f7acd8632881350c2d5549c7cbd7365 shaders/round.comp
//   4d36241e94d5afe50a2e3fd2a1b6bf85bd633d92d1c06554dce54686e43b6f78 shaders/route.comp
//   8cf26bb6fc6e2a994f41f967c4fb0b4b51cd0ac5d357744caaea04b3e24874a3 shaders/router.comp
//   6b00030cb855f6302a7cef077020be85cef6ea0c80689e8b274e4e492ccb7fb2 shaders/router_mul.comp
//   6302ee4b31567d2a7264e5b22626f7841033c03d13ff79215e7b89e8eea4c9f1 shaders/sample.comp

use crate::kernel::KernelDef;

/// Activations: f32, or rounded to integers of 14 bits as docs/arithmetic.md defines them. The Rust twin of the latter is `reference::Q14`.
///
/// A row is cut into groups of 256 elements, which share a scale; the last is filled up with zeros. A subgroup rounds a group: each lane has
/// LANE_PARTS parts of four elements, parts `lane`, `lane + SUBGROUP` and so on, of the 64 of the group.
///
/// A rounded row with g groups is stored as
/// high   \[g * 16 + 1\] runs of 16 signed bytes: an integer is q = 128 * high + low
/// low    \[g * 16 + 1\] runs of 16 signed bytes
/// sums   \[g * 16\] i32: of the integers of each run
/// scales \[g\] f32, padded to 16 bytes
/// parts  \[g * 4\] runs of 16 signed bytes, if the runs stand in order: of the sums of a group's runs, see `store_run_parts`.
/// Products read a quarter of a group, four runs, by one lane. So that neighbouring lanes read neighbouring words, run r of the high and of the
/// low bytes stands at `place(g, r)`: the first runs of all quarters, then the second ones, and so on. Between the second and the third ones a
/// place is left free: formats that pair runs 0, 1, 4 and 5 of a block take both at a time, and find them in different banks of shared memory.
pub mod activations {
    /// `ACT_F32` in GLSL.
    pub const ACT_F32: u32 = 0;
    /// `ACT_Q14` in GLSL.
    pub const ACT_Q14: u32 = 1;
    /// `RUN` in GLSL.
    pub const RUN: u32 = 16;
}

/// Attention of some query heads of one row over a share of its context, by one subgroup: what the kernels `attention` and `attention_rows` have in
/// common. Both do the same operations in the same order, none contracted but where `fma` says so, so that a row has the same bits in both.
///
/// HEADS query heads that share a key and value head are taken together, so that each cached key and value is read once for all of them. ROW_LANES lanes
/// share a position, with a part of the head each: of the queries and of the weighted values, which stay in registers. A share is a number of
/// tiles of TILE positions, and takes them in order. Then the shares of the subgroups of a workgroup are joined to a split of the context, and at last the
/// splits.
/// (Online softmax: Milakov and Gimelshein, 2018; split over the context: Dao et al., Flash-Decoding, 2023.)
///
/// A turn is a tile for each share of a split. Turns go to the splits one after the other, with a window from the turn on that has the first attended key. Tiles
/// before that of this key are left out, so that a share may be without a tile.
///
/// Whoever includes this has `cache_rows.glsl`, `splits.glsl`, `window.glsl` and the specialisation constants HEADS, KEY_FORMAT and VALUE_FORMAT, and defines
/// SETS, how many rows a workgroup has at a time; SHARES, how many shares a split has; and PLACES, for how many shares or splits of a row there is room.
pub mod attention_share {
    /// `STEPS` in GLSL.
    pub const STEPS: u32 = 2;
    /// `MAX_SPLITS` in GLSL.
    pub const MAX_SPLITS: u32 = 64;
}

/// What the forms of `attention` have in common: the operands, the append of the step's own keys and values, idle workgroups, and the rounded result.
///
/// Whoever includes this has `cache_rows.glsl`, `heads.glsl`, `activations.glsl`, `window.glsl` and the specialisation constants HEADS, the query heads of a
/// workgroup, and GROUPS, the workgroups that share a key and value head; and defines `sink_of_head` and `head_part`, which are declared below.
pub mod attention_step {
    /// `WARM_AHEAD` in GLSL.
    pub const WARM_AHEAD: u32 = 8;
}

/// Attention by float matrix units: what the forms of `attention` and `attention_rows` for them have in common. Both do the same operations in the same
/// order, so that a row has the same bits in both, whatever rows are beside it.
///
/// A fragment has 16 pairs of a row and one of the query heads that share a key and value head. It takes the keys by tiles, in order. Scores are products
/// of halves, in base 2, because queries come multiplied with log2(e) / sqrt(head size). Weights are rounded to halves, and the sum of the weights is a
/// product with ones, so that it has the weights as the values get them. 256 keys are a split, which begins anew; splits are joined one after the
/// other. What is masked has a score, and what is new a maximum, that is finite: a tile or a split without a key of the row changes nothing.
/// (Online softmax: Milakov and Gimelshein, 2018; tiles: Dao et al., FlashAttention-2, 2023.)
///
/// Whoever includes this has `workgroup.glsl`, `half.glsl`, `cache_rows.glsl`, `window.glsl` and the specialisation constants HEAD_SIZE and QUERY_SCALE, and
/// defines SHARERS: how many teams of 32 lanes share a fragment. Each of them takes a part of a tile's keys, and then a part of the head's elements. Teams whose
/// numbers follow each other share one; a workgroup has as many fragments as its teams allow.
pub mod attention_tile {
    /// `MOST_KEYS` in GLSL.
    pub const MOST_KEYS: u32 = 64;
    /// `SPLIT` in GLSL.
    pub const SPLIT: u32 = 256;
}

/// How keys and values lie in the KV cache: the values of the specialisation constants that say so.
pub mod cache {
    /// `CACHE_F32` in GLSL.
    pub const CACHE_F32: u32 = 0;
    /// `CACHE_F16` in GLSL.
    pub const CACHE_F16: u32 = 1;
    /// `PAGE_POSITIONS` in GLSL.
    pub const PAGE_POSITIONS: u32 = 64;
}

/// The running maximum of sampling, by score and then by id, so that the result does not depend on how the vocabulary is shared out.
pub mod candidates {
    /// `NO_ID` in GLSL.
    pub const NO_ID: u32 = 0xffffffff;
    /// `CANDIDATE_BYTES` in GLSL.
    pub const CANDIDATE_BYTES: u32 = 16;
}

/// The choice of experts from the router's logits, by every workgroup that needs it: that costs less than to wait for one workgroup's choice.
///
/// An expert's rank is the number of those that come before it, by falling logit and then by rising index; NaN counts as minus infinity. Logits
/// are compared as integers, since a device may flush subnormal floats and then call unequal ones equal.
/// Whoever includes this has the specialisation constants EXPERTS (their number, 0 where nothing is to be chosen) and WEIGHTING.
pub mod choice {
    /// `SOFTMAX_OF_CHOSEN` in GLSL.
    pub const SOFTMAX_OF_CHOSEN: u32 = 0;
    /// `SOFTMAX_OF_ALL` in GLSL.
    pub const SOFTMAX_OF_ALL: u32 = 1;
    /// `MAX_EXPERTS` in GLSL.
    pub const MAX_EXPERTS: u32 = 1024;
    /// `MAX_USED` in GLSL.
    pub const MAX_USED: u32 = 128;
}

/// The recurrent state of a gated delta net: what a lane keeps of a layer from one step to the next.
///
/// Rows of a step are sure if their token belongs to the sequence whatever is sampled: the lane's first row, and those of its prompt. Drafts are not:
/// which of them belong to it, the position of the lane's next step tells. So the state takes in the sure rows of a step, and what drafts would add to
/// it is kept as pending: the next step takes in those that were accepted, before its own rows. Nothing is ever taken back.
///
/// The parts of the state of a lane, in order:
/// memories  \[VALUE_HEADS, HEAD_SIZE values, HEAD_SIZE keys\] f32: a column of a head's matrix is what it keeps for one element of values
/// committed \[VALUE_HEADS, HEAD_SIZE values\] u32: the positions that the column has taken in, from the beginning of the sequence on
/// pending   \[PENDING_SLOTS\] of PENDING_BYTES: of a draft, the CHANNELS behind the convolution, then beta and alpha of each value head; by position
/// columns   \[COLUMN_SLOTS, CHANNELS\] f32: what the convolution takes, of the last positions; by position
/// Positions go round in the slots. The pending rows that a step reads, at most DRAFTS before its position, lie in other slots than those that it writes, at
/// most DRAFTS behind it: workgroups do not wait for each other.
///
/// Whoever includes this has the specialisation constants KEY_HEADS, VALUE_HEADS, HEAD_SIZE and DRAFTS, the most drafts of a step.
pub mod delta_state {
    /// `TAPS` in GLSL.
    pub const TAPS: u32 = 4;
}

/// The weight formats on the device: the twin of `formats::decode`, bit for bit.
///
/// Rows lie in planes (`formats::planes`): a field of all blocks of the row, then the next field, each plane padded to 16 bytes. A row is
/// read in chunks of 32 elements, one or two by a lane: two runs of 16 elements, which have a scale and an offset each. Where the two
/// runs of a chunk stand in the row depends on the format. The format is a specialisation constant wherever this is used, so that one branch
/// survives. In quantised formats an element is scale * q + offset with q a signed byte.
pub mod formats {
    /// `F32` in GLSL.
    pub const F32: u32 = 0;
    /// `F16` in GLSL.
    pub const F16: u32 = 1;
    /// `BF16` in GLSL.
    pub const BF16: u32 = 2;
    /// `Q4_0` in GLSL.
    pub const Q4_0: u32 = 3;
    /// `Q4_1` in GLSL.
    pub const Q4_1: u32 = 4;
    /// `Q5_0` in GLSL.
    pub const Q5_0: u32 = 5;
    /// `Q5_1` in GLSL.
    pub const Q5_1: u32 = 6;
    /// `Q8_0` in GLSL.
    pub const Q8_0: u32 = 7;
    /// `Q4_K` in GLSL.
    pub const Q4_K: u32 = 8;
    /// `Q5_K` in GLSL.
    pub const Q5_K: u32 = 9;
    /// `Q6_K` in GLSL.
    pub const Q6_K: u32 = 10;
    /// `Q2_K` in GLSL.
    pub const Q2_K: u32 = 11;
    /// `Q3_K` in GLSL.
    pub const Q3_K: u32 = 12;
    /// `IQ4_NL` in GLSL.
    pub const IQ4_NL: u32 = 13;
    /// `IQ4_XS` in GLSL.
    pub const IQ4_XS: u32 = 14;
    /// `MXFP4` in GLSL.
    pub const MXFP4: u32 = 15;
    /// `NO_FORMAT` in GLSL.
    pub const NO_FORMAT: u32 = 255;
}

/// How many workgroups the products with experts have: `route` writes it, and the device reads it when it launches them.
pub mod grids {
    /// `GATE_UP_GRID` in GLSL.
    pub const GATE_UP_GRID: u32 = 0;
    /// `DOWN_GRID` in GLSL.
    pub const DOWN_GRID: u32 = 12;
    /// `GRIDS_BYTES` in GLSL.
    pub const GRIDS_BYTES: u32 = 24;
    /// The workgroups of one product. Those of all tiles lie in z: a launch without tiles has none.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Grid {
        /// `x` in GLSL.
        pub x: u32,
        /// `y` in GLSL.
        pub y: u32,
        /// `z` in GLSL.
        pub z: u32,
    }
    const _: () = {
        assert!(size_of::<Grid>() == 12);
        assert!(std::mem::offset_of!(Grid, x) == 0);
        assert!(std::mem::offset_of!(Grid, y) == 4);
        assert!(std::mem::offset_of!(Grid, z) == 8);
    };
}

/// Workgroups that share the groups of a block, in products by matrix units: a launch of few blocks has SPLITS of them for each block and tile, and each takes
/// some neighbouring groups. docs/arithmetic.md adds the values of groups in order, so that a workgroup may not add up its own. It stores the scaled values of
/// its groups to memory, and the workgroup that finishes last adds those of all groups.
///
/// Whoever includes this has BLOCK_ROWS, TILE, and the specialisation constant SPLITS: a power of two, at most GROUPS. With 1 nothing is
/// shared out, and nothing is stored.
pub mod group_values {
    /// `GROUP_COUNTERS` in GLSL.
    pub const GROUP_COUNTERS: u32 = 1024;
    /// `GROUPS_AHEAD` in GLSL.
    pub const GROUPS_AHEAD: u32 = 8;
}

/// Fragments of halves: matrices of 16 x 16 that 32 lanes hold together, and products of two of them that are added to sums in f32. With MATRIX_UNITS
/// defined they are cooperative matrices, which float matrix units multiply. Without it they are arrays, and f32 arithmetic stands in for the units: the
/// kernels are tested so where there are none. The results of the two differ in their last bits.
///
/// Lane l holds the elements of rows l / 4 and l / 4 + 8 in columns 2 * (l % 4), the one behind it, and the two that stand 8 columns further: eight elements,
/// by row and then by column, of sums and of left factors alike. NVIDIA's devices hold them so. A kernel that includes this is used on no others.
///
/// Whoever includes this has `workgroup.glsl` and `half.glsl`, and defines `staged`, an array of uvec4 in shared memory, of eight halves each. Places and
/// strides count uvec4. All lanes of a workgroup take part in everything.
pub mod half_fragments {
    /// `TEAM` in GLSL.
    pub const TEAM: u32 = 32;
    /// `BY_COLUMNS` in GLSL.
    pub const BY_COLUMNS: u32 = 0;
    /// `BY_ROWS` in GLSL.
    pub const BY_ROWS: u32 = 1;
    /// `ALL_ONES` in GLSL.
    pub const ALL_ONES: u32 = 2;
}

/// Query, key and value heads: how queries and keys are prepared, that is normalised and rotated, and how keys and values are stored in the KV
/// cache.
///
/// One subgroup takes a head; each lane has OWN_PAIRS pairs of its elements. `append` and `attention` share this code, so that a row of the cache
/// has the same bits whichever of them wrote it.
///
/// Whoever includes this has `cache_rows.glsl` and the specialisation constants HEAD_SIZE, KEY_FORMAT, VALUE_FORMAT, PAIRING, NORMALISE, ROTATED and
/// EPSILON.
/// (Rotary embedding: Su et al., RoFormer, 2021; its cosines and sines come from a table of the host's, because Vulkan promises too little
/// precision for long contexts.)
pub mod heads {
    /// `HALVES` in GLSL.
    pub const HALVES: u32 = 0;
    /// `INTERLEAVED` in GLSL.
    pub const INTERLEAVED: u32 = 1;
}

/// Sums and maxima of integers over a whole workgroup of at most 1,024 threads, and subgroups of at least 8. They are exact, so that the order does
/// not matter. Each ends with every thread holding the result, and may be called again at once.
///
/// `holders` is how many of the first subgroups may hold anything but zeros: often it is one, and then the others have nothing to do. Of more
/// than a few, the subgroups' values are combined by every subgroup for itself, its lanes taking those of a subgroup each.
pub mod integers {
    /// `FEW` in GLSL.
    pub const FEW: u32 = 4;
}

/// A lane is a sequence's place on the device: how far it has come, where it ends and how it samples; and what a step reports of it to the host.
/// The Rust structs of the same names are generated from these declarations.
pub mod lane {
    /// `LANE_BYTES` in GLSL.
    pub const LANE_BYTES: u32 = 80;
    /// `MOST_RUN` in GLSL.
    pub const MOST_RUN: u32 = 16;
    /// `GATE_OPEN` in GLSL.
    pub const GATE_OPEN: u32 = 0;
    /// `GATE_GUIDE` in GLSL.
    pub const GATE_GUIDE: u32 = 1;
    /// `GATE_TOKEN` in GLSL.
    pub const GATE_TOKEN: u32 = 2;
    /// `STATUS_NO_OP` in GLSL.
    pub const STATUS_NO_OP: u32 = 0;
    /// `STATUS_FED` in GLSL.
    pub const STATUS_FED: u32 = 1;
    /// `STATUS_SAMPLED` in GLSL.
    pub const STATUS_SAMPLED: u32 = 2;
    /// `FINISH_NONE` in GLSL.
    pub const FINISH_NONE: u32 = 0;
    /// `FINISH_END_OF_GENERATION` in GLSL.
    pub const FINISH_END_OF_GENERATION: u32 = 1;
    /// `FINISH_BUDGET` in GLSL.
    pub const FINISH_BUDGET: u32 = 2;
    /// `FINISH_CONTEXT_FULL` in GLSL.
    pub const FINISH_CONTEXT_FULL: u32 = 3;
    /// `FINISH_CANCELLED` in GLSL.
    pub const FINISH_CANCELLED: u32 = 4;
    /// `FINISH_NON_FINITE` in GLSL.
    pub const FINISH_NON_FINITE: u32 = 5;
    /// `WANTED_OFFSET` in GLSL.
    pub const WANTED_OFFSET: u32 = 8;
    /// `GROWN_OFFSET` in GLSL.
    pub const GROWN_OFFSET: u32 = 520;
    /// `WANTED_BYTES` in GLSL.
    pub const WANTED_BYTES: u32 = 8;
    /// `GROWN_BYTES` in GLSL.
    pub const GROWN_BYTES: u32 = 8;
    /// A page that a lane has from a step on.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct GrownPage {
        /// its place among the entries of the tables of all lanes
        pub entry: u32,
        /// its number
        pub page: u32,
    }
    const _: () = {
        assert!(size_of::<GrownPage>() == 8);
        assert!(std::mem::offset_of!(GrownPage, entry) == 0);
        assert!(std::mem::offset_of!(GrownPage, page) == 4);
    };
    /// One per sequence, in device memory. `list`, `advance`, `cancel`, `last_rows`, `last_accepted`, `lookup` and `propose` write it.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Lane {
        /// the last token of the sequence, which the next step takes first
        pub token: u32,
        /// its position; keys and values of earlier positions are valid
        pub position: u32,
        /// tokens at positions below this come from the prompt
        pub prompt_length: u32,
        /// tokens that may still be sampled
        pub budget: u32,
        /// positions that the sequence may have
        pub context_length: u32,
        /// valid entries of the list of end-of-generation ids
        pub end_token_count: u32,
        /// why the sequence stopped: FINISH_*
        pub finish: u32,
        /// of the draws, together with `seed_high`
        pub seed_low: u32,
        /// see `seed_low`
        pub seed_high: u32,
        /// 1 / temperature; 0: greedy
        pub inverse_temperature: f32,
        /// the sequence's number: a cancellation carries it, so that a late one cannot stop a successor
        pub sequence: u32,
        /// what the host decides about each token: GATE_*
        pub gate: u32,
        /// of the step that the lane takes part in: where its rows begin in the table
        pub first_row: u32,
        /// and how many there are: 0 if the sequence had stopped before the step, or was cancelled in it
        pub rows: u32,
        /// \[context + MOST_RUN\] u32: the prompt, then what was sampled, then drafts
        pub tokens: u64,
        /// \[end_token_count\] u32
        pub end_tokens: u64,
        /// SamplerParams, 0: the chain of samplers is not used
        pub samplers: u64,
    }
    const _: () = {
        assert!(size_of::<Lane>() == 80);
        assert!(std::mem::offset_of!(Lane, token) == 0);
        assert!(std::mem::offset_of!(Lane, position) == 4);
        assert!(std::mem::offset_of!(Lane, prompt_length) == 8);
        assert!(std::mem::offset_of!(Lane, budget) == 12);
        assert!(std::mem::offset_of!(Lane, context_length) == 16);
        assert!(std::mem::offset_of!(Lane, end_token_count) == 20);
        assert!(std::mem::offset_of!(Lane, finish) == 24);
        assert!(std::mem::offset_of!(Lane, seed_low) == 28);
        assert!(std::mem::offset_of!(Lane, seed_high) == 32);
        assert!(std::mem::offset_of!(Lane, inverse_temperature) == 36);
        assert!(std::mem::offset_of!(Lane, sequence) == 40);
        assert!(std::mem::offset_of!(Lane, gate) == 44);
        assert!(std::mem::offset_of!(Lane, first_row) == 48);
        assert!(std::mem::offset_of!(Lane, rows) == 52);
        assert!(std::mem::offset_of!(Lane, tokens) == 56);
        assert!(std::mem::offset_of!(Lane, end_tokens) == 64);
        assert!(std::mem::offset_of!(Lane, samplers) == 72);
    };
    /// One for each lane and ring slot, in host-visible memory. `advance` writes it, the host reads it once the step's timeline value is reached.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct StepReport {
        /// the sequence's number
        pub sequence: u32,
        /// STATUS_*
        pub status: u32,
        /// where the sequence stands after the step
        pub position: u32,
        /// FINISH_*, 0 while the sequence goes on
        pub finish: u32,
        /// of the last token sampled, before temperature
        pub logit: f32,
        /// rows behind which the prompt goes on
        pub fed: u32,
        /// tokens sampled: 0 by a no-op and while the prompt goes on, 1 by a step without drafts
        pub count: u32,
        /// drafts that the step took in behind its first row, accepted or not
        pub drafts: u32,
        /// sampled, in order; what is behind the first `count` means nothing
        pub tokens: [u32; 16],
    }
    const _: () = {
        assert!(size_of::<StepReport>() == 96);
        assert!(std::mem::offset_of!(StepReport, sequence) == 0);
        assert!(std::mem::offset_of!(StepReport, status) == 4);
        assert!(std::mem::offset_of!(StepReport, position) == 8);
        assert!(std::mem::offset_of!(StepReport, finish) == 12);
        assert!(std::mem::offset_of!(StepReport, logit) == 16);
        assert!(std::mem::offset_of!(StepReport, fed) == 20);
        assert!(std::mem::offset_of!(StepReport, count) == 24);
        assert!(std::mem::offset_of!(StepReport, drafts) == 28);
        assert!(std::mem::offset_of!(StepReport, tokens) == 32);
    };
    /// A lane that the host wants in a step.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct WantedLane {
        /// its number
        pub lane: u32,
        /// that it may have, at most; it has several only where its prompt goes on
        pub rows: u32,
    }
    const _: () = {
        assert!(size_of::<WantedLane>() == 8);
        assert!(std::mem::offset_of!(WantedLane, lane) == 0);
        assert!(std::mem::offset_of!(WantedLane, rows) == 4);
    };
    /// What the host wants of a step, one per ring slot, in host-visible memory: which lanes take part, and which pages lanes get.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct WantedLanes {
        /// lanes of the step: at most MOST_LANES
        pub count: u32,
        /// pages that lanes have from this step on: at most MOST_LANES
        pub grown_count: u32,
    }
    const _: () = {
        assert!(size_of::<WantedLanes>() == 8);
        assert!(std::mem::offset_of!(WantedLanes, count) == 0);
        assert!(std::mem::offset_of!(WantedLanes, grown_count) == 4);
    };
}

/// One share of the vocabulary: its values, its summary and its list (see shares.glsl). The Rust twin is `reference::shares`.
/// Whoever includes this defines SCORED, whether the list has scores, and with it `quad_scores`. The workgroup has at least 256 threads.
pub mod listing {
    /// `STEPS` in GLSL.
    pub const STEPS: u32 = 256;
}

/// What `logprobs` reports: enough for the log-softmax of any logit of the step.
pub mod logprob_report {
    /// `TOP_LOGPROBS` in GLSL.
    pub const TOP_LOGPROBS: u32 = 20;
    /// `LOGPROB_REPORT_BYTES` in GLSL.
    pub const LOGPROB_REPORT_BYTES: u32 = 176;
    /// One for each lane and ring slot, in host-visible memory, for lanes of one row. The natural logarithm of a token's probability is its logit - highest - log(mass / 2^40).
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct LogprobReport {
        /// of the softmax weights of all tokens, relative to the highest logit
        pub mass: u64,
        /// logit
        pub highest: f32,
        /// tokens listed: as many as have finite logits, at most TOP_LOGPROBS
        pub count: u32,
        /// of the tokens with the highest logits, by falling logit, then by rising id
        pub ids: [u32; 20],
        /// of those
        pub logits: [f32; 20],
    }
    const _: () = {
        assert!(size_of::<LogprobReport>() == 176);
        assert!(std::mem::offset_of!(LogprobReport, mass) == 0);
        assert!(std::mem::offset_of!(LogprobReport, highest) == 8);
        assert!(std::mem::offset_of!(LogprobReport, count) == 12);
        assert!(std::mem::offset_of!(LogprobReport, ids) == 16);
        assert!(std::mem::offset_of!(LogprobReport, logits) == 96);
    };
}

/// The vectors that a workgroup's matrix products take: VECTORS of them, of COLUMNS elements, from one of three sources.
///
/// Whoever includes this has the specialisation constants ACT (what products compute with), COLUMNS and SOURCE, and defines VECTORS. With
/// ACT_Q14 the products take integers: from memory if they are rounded there, else from shared memory, where `stage` puts them.
pub mod operand {
    /// `FLOATS` in GLSL.
    pub const FLOATS: u32 = 0;
    /// `NORMALISED` in GLSL.
    pub const NORMALISED: u32 = 1;
    /// `ROUNDED` in GLSL.
    pub const ROUNDED: u32 = 2;
}

/// The rows of a step. A row is one token at one position, which the step takes through the layers; a step has a table of its rows.
/// The Rust structs of the same names are generated from these declarations.
///
/// The step's state (`StepState` in Rust) is a head, a lane of its own (lane.glsl), the list of the step's lanes, and the table of rows, which is much the
/// longest part: what a step of few rows needs is a prefix. The head is the number of rows and that of lanes, 32 bits each; and the address of the lanes that
/// several states share, which is 0 in a state whose own lane is its only one. In a model of several lanes the tables of their pages follow behind the state, by
/// the numbers of the lanes (cache_rows.glsl). `list` writes the numbers of rows and lanes, the list and the table of rows when a step begins, and into the tables
/// of pages those that lanes have from this step on. A dispatch has workgroups for as many rows as its step has room for, which may be more than the table lists.
pub mod rows {
    /// `MOST_ROWS` in GLSL.
    pub const MOST_ROWS: u32 = 2048;
    /// `MOST_SAMPLING_ROWS` in GLSL.
    pub const MOST_SAMPLING_ROWS: u32 = 64;
    /// `MOST_LANES` in GLSL.
    pub const MOST_LANES: u32 = 64;
    /// `ROW_BYTES` in GLSL.
    pub const ROW_BYTES: u32 = 16;
    /// `LANE_COUNT_OFFSET` in GLSL.
    pub const LANE_COUNT_OFFSET: u32 = 4;
    /// `LANES_ADDRESS_OFFSET` in GLSL.
    pub const LANES_ADDRESS_OFFSET: u32 = 8;
    /// `OWN_LANE_OFFSET` in GLSL.
    pub const OWN_LANE_OFFSET: u32 = 32;
    /// `LISTED_OFFSET` in GLSL.
    pub const LISTED_OFFSET: u32 = 112;
    /// `ROWS_OFFSET` in GLSL.
    pub const ROWS_OFFSET: u32 = 368;
    /// `PAGES_OFFSET` in GLSL.
    pub const PAGES_OFFSET: u32 = 33136;
    /// One row of the table. `list`, `last_rows`, `lookup` and `propose` write rows, every other kernel reads them.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Row {
        /// of its position from that of the lane's first row in the step: 0 for the last token of a sequence, 1 and up for drafts and for what follows in a prompt
        pub offset: u32,
        /// what is evaluated
        pub token: u32,
        /// in its sequence; keys and values of earlier positions are valid or are those of earlier rows of the step
        pub position: u32,
        /// the number of the lane whose row it is
        pub lane: u32,
    }
    const _: () = {
        assert!(size_of::<Row>() == 16);
        assert!(std::mem::offset_of!(Row, offset) == 0);
        assert!(std::mem::offset_of!(Row, token) == 4);
        assert!(std::mem::offset_of!(Row, position) == 8);
        assert!(std::mem::offset_of!(Row, lane) == 12);
    };
}

/// What the kernels of the sampler chain (`dry`, `adjust`, `choose`) are told and what they hand to each other.
///
/// The chain's order and the meaning of its parameters are llama.cpp's: logit bias, penalties, DRY, top-n-sigma, top-k, typical, top-p, min-p,
/// XTC, temperature, draw. All of it is integers, and float additions and multiplications that may not be contracted, so that the host chooses
/// the same token from the same logits (`reference::choose`).
pub mod sampler {
    /// `PROBABILITY_ONE` in GLSL.
    pub const PROBABILITY_ONE: u32 = 0x1000000;
    /// `SIGMA_OFF` in GLSL.
    pub const SIGMA_OFF: u32 = 0xffffffff;
    /// `MAX_TAIL` in GLSL.
    pub const MAX_TAIL: u32 = 20;
    /// `TAIL_WORDS` in GLSL.
    pub const TAIL_WORDS: u32 = 22;
    /// `BREAKS_ALONE` in GLSL.
    pub const BREAKS_ALONE: u32 = 1;
    /// `BEGINS_BREAKER` in GLSL.
    pub const BEGINS_BREAKER: u32 = 2;
    /// `MOMENTS_BYTES` in GLSL.
    pub const MOMENTS_BYTES: u32 = 16;
    /// `MAX_STEP_BIASES` in GLSL.
    pub const MAX_STEP_BIASES: u32 = 1024;
    /// `STEP_INPUT_BYTES` in GLSL.
    pub const STEP_INPUT_BYTES: u32 = 8;
    /// `BIAS_BYTES` in GLSL.
    pub const BIAS_BYTES: u32 = 8;
    /// What is added to the logit of a token. Lists of these are sorted by id, and no id is in a list twice.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Bias {
        /// `id` in GLSL.
        pub id: u32,
        /// `bias` in GLSL.
        pub bias: f32,
    }
    const _: () = {
        assert!(size_of::<Bias>() == 8);
        assert!(std::mem::offset_of!(Bias, id) == 0);
        assert!(std::mem::offset_of!(Bias, bias) == 4);
    };
    /// What top-n-sigma needs to know of the candidates of a share.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Moments {
        /// of their logits in units of 2^-10, in two's complement
        pub sum: u64,
        /// of the squares of the same
        pub squares: u64,
    }
    const _: () = {
        assert!(size_of::<Moments>() == 16);
        assert!(std::mem::offset_of!(Moments, sum) == 0);
        assert!(std::mem::offset_of!(Moments, squares) == 8);
    };
    /// One per sequence, in device memory: written by the host before the sequence starts (`sampler::SamplerTables`).
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct SamplerParams {
        /// \[bias_count\] Bias
        pub biases: u64,
        /// \[dry_penalty_count\] f32
        pub dry_penalties: u64,
        /// \[vocabulary\] u8 in whole words: flags
        pub breakers: u64,
        /// \[tail_count, TAIL_WORDS\] u32: head, length, tokens
        pub tails: u64,
        /// \[vocabulary\] u32: occurrences in the window that ends with the lane's position, or with the first of its rows in a step
        pub counts: u64,
        /// entries of the list of biases
        pub bias_count: u32,
        /// tokens of the history that the penalties count in, 0: no penalties
        pub penalty_window: u32,
        /// what logits of such tokens are multiplied with if they are negative
        pub repeat: f32,
        /// and if they are positive
        pub inverse_repeat: f32,
        /// subtracted for each occurrence
        pub frequency: f32,
        /// subtracted once
        pub presence: f32,
        /// tokens of the history that DRY looks at, 0: no DRY
        pub dry_window: u32,
        /// shorter repetitions are free
        pub dry_allowed_length: u32,
        /// entries of the table of DRY's penalties, at least 1; longer repetitions cost what the last entry says
        pub dry_penalty_count: u32,
        /// sequence breakers of several tokens
        pub tail_count: u32,
        /// top-n-sigma: the square of n in units of 2^-16, SIGMA_OFF: off
        pub sigma_squared: u32,
        /// 0: all
        pub top_k: u32,
        /// a probability in units of 2^-24, as the following ones; PROBABILITY_ONE: off
        pub typical: u32,
        /// PROBABILITY_ONE: off
        pub top_p: u32,
        /// natural logarithm, minus infinity: off
        pub log_min_p: f32,
        /// 0: off
        pub xtc_probability: u32,
        /// `xtc_threshold` in GLSL.
        pub xtc_threshold: u32,
        /// Fills the struct to its alignment.
        pub padding: [u32; 1],
    }
    const _: () = {
        assert!(size_of::<SamplerParams>() == 112);
        assert!(std::mem::offset_of!(SamplerParams, biases) == 0);
        assert!(std::mem::offset_of!(SamplerParams, dry_penalties) == 8);
        assert!(std::mem::offset_of!(SamplerParams, breakers) == 16);
        assert!(std::mem::offset_of!(SamplerParams, tails) == 24);
        assert!(std::mem::offset_of!(SamplerParams, counts) == 32);
        assert!(std::mem::offset_of!(SamplerParams, bias_count) == 40);
        assert!(std::mem::offset_of!(SamplerParams, penalty_window) == 44);
        assert!(std::mem::offset_of!(SamplerParams, repeat) == 48);
        assert!(std::mem::offset_of!(SamplerParams, inverse_repeat) == 52);
        assert!(std::mem::offset_of!(SamplerParams, frequency) == 56);
        assert!(std::mem::offset_of!(SamplerParams, presence) == 60);
        assert!(std::mem::offset_of!(SamplerParams, dry_window) == 64);
        assert!(std::mem::offset_of!(SamplerParams, dry_allowed_length) == 68);
        assert!(std::mem::offset_of!(SamplerParams, dry_penalty_count) == 72);
        assert!(std::mem::offset_of!(SamplerParams, tail_count) == 76);
        assert!(std::mem::offset_of!(SamplerParams, sigma_squared) == 80);
        assert!(std::mem::offset_of!(SamplerParams, top_k) == 84);
        assert!(std::mem::offset_of!(SamplerParams, typical) == 88);
        assert!(std::mem::offset_of!(SamplerParams, top_p) == 92);
        assert!(std::mem::offset_of!(SamplerParams, log_min_p) == 96);
        assert!(std::mem::offset_of!(SamplerParams, xtc_probability) == 100);
        assert!(std::mem::offset_of!(SamplerParams, xtc_threshold) == 104);
    };
    /// What the host may say of one step, in host-visible memory, with what follows the struct: MAX_STEP_BIASES places for biases, then a bit for each token of the vocabulary, lowest bits of the words first, 1: allowed. For lanes of one row.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct StepInput {
        /// 0: all tokens are allowed
        pub has_mask: u32,
        /// valid entries of the step's biases
        pub bias_count: u32,
    }
    const _: () = {
        assert!(size_of::<StepInput>() == 8);
        assert!(std::mem::offset_of!(StepInput, has_mask) == 0);
        assert!(std::mem::offset_of!(StepInput, bias_count) == 4);
    };
}

/// Candidates that are still in the running, and the selection among them without sorting.
///
/// A candidate's place is a key of 64 bits: the order key of its logit, then the inverted id, so that of equal logits the lower id comes first.
/// What earlier stages have left is described by bounds on places. The candidates lie in the lists of the shares; once no more than GATHERED
/// are left, they are gathered in shared memory, where each further pass is short.
///
/// Selection: of the candidates in falling order of a key, the fewest whose weights sum to at least a target. It finds the key of the last of them
/// by radix, eight bits a pass: a histogram of the keys' next digits, by weight, says in which digit the target is reached. The first digit begins
/// at the highest bit in which keys differ, and the search ends as soon as the target is reached exactly at the end of a digit, or by its
/// only candidate; two or three passes are common. (Alabi, Blelloch, Gordon, Steinbach: Fast k-selection algorithms for graphics processing
/// units, 2012.) Sums are integers, and do not depend on an order. Of few candidates each is compared with each instead.
pub mod select {
    /// `GATHERED` in GLSL.
    pub const GATHERED: u32 = 1024;
    /// `RANKED` in GLSL.
    pub const RANKED: u32 = 256;
    /// `RANK_LANES` in GLSL.
    pub const RANK_LANES: u32 = 4;
    /// `DIGIT_BITS` in GLSL.
    pub const DIGIT_BITS: u32 = 8;
    /// `DIGITS` in GLSL.
    pub const DIGITS: u32 = 256;
    /// `BY_COUNT` in GLSL.
    pub const BY_COUNT: u32 = 0;
    /// `BY_TYPICALITY` in GLSL.
    pub const BY_TYPICALITY: u32 = 1;
    /// `BY_MASS` in GLSL.
    pub const BY_MASS: u32 = 2;
}

/// The vocabulary by shares: each workgroup of one kernel sums its share up and lists the candidates in it, and the single workgroup of the
/// next kernel chooses among those.
///
/// A list has three parts: the candidates' logits, their ids, and their scores, each \[shares, SHARE_IDS\] words. Of a share the first `listed`
/// entries are valid, by rising id. With a limit k a list is cut: it holds at least the k highest of the share, and whatever is equal to the least
/// of what it holds.
pub mod shares {
    /// `SHARE_IDS` in GLSL.
    pub const SHARE_IDS: u32 = 2048;
    /// `MAX_SHARES` in GLSL.
    pub const MAX_SHARES: u32 = 512;
    /// `SHARE_BYTES` in GLSL.
    pub const SHARE_BYTES: u32 = 24;
    /// `SOME` in GLSL.
    pub const SOME: u32 = 8;
    /// `PART_LOGITS` in GLSL.
    pub const PART_LOGITS: u32 = 0;
    /// `PART_IDS` in GLSL.
    pub const PART_IDS: u32 = 1;
    /// `PART_SCORES` in GLSL.
    pub const PART_SCORES: u32 = 2;
    /// The summary of a share.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Share {
        /// candidates: tokens whose logits are neither NaN nor infinite
        pub finite: u32,
        /// tokens whose logits are NaN or plus infinity
        pub non_finite: u32,
        /// the order key of the highest candidate, 0 if there is none
        pub highest: u32,
        /// an order key that SOME listed candidates reach, and not many more; 0 if fewer are listed
        pub some: u32,
        /// where the list holds k candidates or more: the order key of its least, else 0
        pub least: u32,
        /// entries of the list
        pub listed: u32,
    }
    const _: () = {
        assert!(size_of::<Share>() == 24);
        assert!(std::mem::offset_of!(Share, finite) == 0);
        assert!(std::mem::offset_of!(Share, non_finite) == 4);
        assert!(std::mem::offset_of!(Share, highest) == 8);
        assert!(std::mem::offset_of!(Share, some) == 12);
        assert!(std::mem::offset_of!(Share, least) == 16);
        assert!(std::mem::offset_of!(Share, listed) == 20);
    };
}

/// How the two products of the first half of a feed-forward layer become one, with each operation rounded by itself. The Rust twin is `reference::activated`.
///
/// Whoever includes this has the specialisation constant ACTIVATION.
pub mod swiglu {
    /// `SWIGLU` in GLSL.
    pub const SWIGLU: u32 = 0;
    /// `CLAMPED_SWIGLU` in GLSL.
    pub const CLAMPED_SWIGLU: u32 = 1;
    /// `LIMIT` in GLSL.
    pub const LIMIT: u32 = 0x40e00000;
    /// `SLOPE` in GLSL.
    pub const SLOPE: u32 = 0x3fd9db23;
}

/// The list of tiles that `route` makes and products with experts read.
pub mod tile_list {
    /// `TILE_BYTES` in GLSL.
    pub const TILE_BYTES: u32 = 16;
    /// One entry of the list.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Tile {
        /// whose matrix it is
        pub expert: u32,
        /// of its pairs, the place in the list of pairs
        pub first: u32,
        /// of its pairs
        pub count: u32,
        /// fills an entry up to 16 bytes, which one load brings
        pub unused: u32,
    }
    const _: () = {
        assert!(size_of::<Tile>() == 16);
        assert!(std::mem::offset_of!(Tile, expert) == 0);
        assert!(std::mem::offset_of!(Tile, first) == 4);
        assert!(std::mem::offset_of!(Tile, count) == 8);
        assert!(std::mem::offset_of!(Tile, unused) == 12);
    };
}

/// The first half of the sampler chain: adjusts the logits and lists the candidates, one workgroup a share of the vocabulary.
///
/// Biases are added, of the sequence and then of the step; tokens in the window of the penalties are made less likely (Keskar et al., CTRL, 2019;
/// OpenAI's frequency and presence penalties), and those that would extend a repetition (`dry`); tokens that the step's mask forbids are no
/// candidates. A list is cut to little more than the k highest where top-k is on.
pub mod adjust {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[vocabulary\] f32
        pub logits: u64,
        /// \[vocabulary\] u32: what `dry` left, 0 afterwards
        pub dry_lengths: u64,
        /// \[lanes\] StepInput of this ring slot, host-visible, for lanes with GATE_GUIDE
        pub step_inputs: u64,
        /// the candidates, by shares
        pub items: u64,
        /// \[shares\] Share
        pub shares: u64,
        /// \[shares\] Moments, written for top-n-sigma
        pub moments: u64,
        /// `vocabulary` in GLSL.
        pub vocabulary: u32,
        /// bytes from one row of the step to the next, as the strides below
        pub logits_stride: u32,
        /// `dry_lengths_stride` in GLSL.
        pub dry_lengths_stride: u32,
        /// bytes from one lane's to the next one's
        pub step_input_stride: u32,
        /// `items_stride` in GLSL.
        pub items_stride: u32,
        /// `shares_stride` in GLSL.
        pub shares_stride: u32,
        /// `moments_stride` in GLSL.
        pub moments_stride: u32,
        /// Fills the struct to its alignment.
        pub padding: [u32; 1],
    }
    const _: () = {
        assert!(size_of::<Push>() == 88);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, logits) == 8);
        assert!(std::mem::offset_of!(Push, dry_lengths) == 16);
        assert!(std::mem::offset_of!(Push, step_inputs) == 24);
        assert!(std::mem::offset_of!(Push, items) == 32);
        assert!(std::mem::offset_of!(Push, shares) == 40);
        assert!(std::mem::offset_of!(Push, moments) == 48);
        assert!(std::mem::offset_of!(Push, vocabulary) == 56);
        assert!(std::mem::offset_of!(Push, logits_stride) == 60);
        assert!(std::mem::offset_of!(Push, dry_lengths_stride) == 64);
        assert!(std::mem::offset_of!(Push, step_input_stride) == 68);
        assert!(std::mem::offset_of!(Push, items_stride) == 72);
        assert!(std::mem::offset_of!(Push, shares_stride) == 76);
        assert!(std::mem::offset_of!(Push, moments_stride) == 80);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 2] {
            [(0, self.workgroup), (1, self.subgroup)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef =
        KernelDef { name: "adjust", spirv: include_bytes!("../spv/adjust.spv"), push_bytes: size_of::<Push>() as u32 };
}

/// The last kernel of a step: decides the next tokens of each lane, moves its sequence on and reports to the host. One workgroup a lane.
///
/// Rows behind which the prompt goes on decide nothing: the sequence moves on over them. Behind the first other row the best candidate that sampling
/// left is the next token. Where it is what the next row, a draft, has, that row's candidates decide the token after it, and so on: at each
/// position the very token comes out that would without drafts. End of generation, token budget, end of the context, a cancellation by the host and non-finite
/// logits end the sequence: it has no rows in the steps that are queued behind. A lane without rows stays as it is, and the report says so.
pub mod advance {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[lanes\] StepReport of this ring slot
        pub reports: u64,
        /// \[lanes\] u32, host-visible: for each lane the sequence that the host wants stopped
        pub cancelled: u64,
        /// \[candidate_count\] Candidate
        pub candidates: u64,
        /// \[lanes\] Candidate of this ring slot, host-visible: what the host chooses for lanes with GATE_TOKEN
        pub choices: u64,
        /// 0 in a step that only feeds the prompt
        pub candidate_count: u32,
        /// bytes from one lane's report to the next one's
        pub report_stride: u32,
        /// bytes from one row's candidates to the next one's
        pub candidates_stride: u32,
        /// bytes from one lane's choice to the next one's
        pub choice_stride: u32,
    }
    const _: () = {
        assert!(size_of::<Push>() == 56);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, reports) == 8);
        assert!(std::mem::offset_of!(Push, cancelled) == 16);
        assert!(std::mem::offset_of!(Push, candidates) == 24);
        assert!(std::mem::offset_of!(Push, choices) == 32);
        assert!(std::mem::offset_of!(Push, candidate_count) == 40);
        assert!(std::mem::offset_of!(Push, report_stride) == 44);
        assert!(std::mem::offset_of!(Push, candidates_stride) == 48);
        assert!(std::mem::offset_of!(Push, choice_stride) == 52);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 2] {
            [(0, self.workgroup), (1, self.subgroup)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "advance",
        spirv: include_bytes!("../spv/advance.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// The append to the KV cache: normalises and rotates the queries and keys of each row of the step, and stores its keys and values at the row's position.
/// The queries stay where they are.
///
/// One subgroup takes the key and the value of one head of one row, or one query. In steps of many rows `attention_rows` reads what this has stored; in
/// others `attention` does the same for itself.
pub mod append {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[query_heads, HEAD_SIZE\] f32
        pub q: u64,
        /// \[KV_HEADS, HEAD_SIZE\] f32
        pub k: u64,
        /// \[KV_HEADS, HEAD_SIZE\] f32
        pub v: u64,
        /// \[HEAD_SIZE\] f32, read by NORMALISE
        pub q_norm: u64,
        /// \[HEAD_SIZE\] f32, read by NORMALISE
        pub k_norm: u64,
        /// \[context, ROTATED / 2\] pairs (cos, sin) f32
        pub rotation: u64,
        /// \[positions, KV_HEADS * HEAD_SIZE\] in KEY_FORMAT
        pub key_cache: u64,
        /// \[positions, KV_HEADS * HEAD_SIZE\] in VALUE_FORMAT
        pub value_cache: u64,
        /// `query_heads` in GLSL.
        pub query_heads: u32,
        /// bytes from one row of the step to the next, as the strides below
        pub q_stride: u32,
        /// `k_stride` in GLSL.
        pub k_stride: u32,
        /// `v_stride` in GLSL.
        pub v_stride: u32,
    }
    const _: () = {
        assert!(size_of::<Push>() == 88);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, q) == 8);
        assert!(std::mem::offset_of!(Push, k) == 16);
        assert!(std::mem::offset_of!(Push, v) == 24);
        assert!(std::mem::offset_of!(Push, q_norm) == 32);
        assert!(std::mem::offset_of!(Push, k_norm) == 40);
        assert!(std::mem::offset_of!(Push, rotation) == 48);
        assert!(std::mem::offset_of!(Push, key_cache) == 56);
        assert!(std::mem::offset_of!(Push, value_cache) == 64);
        assert!(std::mem::offset_of!(Push, query_heads) == 72);
        assert!(std::mem::offset_of!(Push, q_stride) == 76);
        assert!(std::mem::offset_of!(Push, k_stride) == 80);
        assert!(std::mem::offset_of!(Push, v_stride) == 84);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `HEAD_SIZE`.
        pub head_size: u32,
        /// Constant 3, `KEY_FORMAT`.
        pub key_format: u32,
        /// Constant 4, `VALUE_FORMAT`.
        pub value_format: u32,
        /// Constant 5, `PAIRING`.
        pub pairing: u32,
        /// Constant 6, `NORMALISE`.
        pub normalise: u32,
        /// Constant 7, `ROTATED`.
        pub rotated: u32,
        /// Constant 8, `KV_HEADS`.
        pub kv_heads: u32,
        /// Constant 9, `EPSILON`.
        pub epsilon: u32,
        /// Constant 10, `LANE_PAGES`.
        pub lane_pages: u32,
        /// Constant 11, `RING_PAGES`.
        pub ring_pages: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 12] {
            [
                (0, self.workgroup),
                (1, self.subgroup),
                (2, self.head_size),
                (3, self.key_format),
                (4, self.value_format),
                (5, self.pairing),
                (6, self.normalise),
                (7, self.rotated),
                (8, self.kv_heads),
                (9, self.epsilon),
                (10, self.lane_pages),
                (11, self.ring_pages),
            ]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef =
        KernelDef { name: "append", spirv: include_bytes!("../spv/append.spv"), push_bytes: size_of::<Push>() as u32 };
}

/// Attention of each row of the step: normalises and rotates its queries and its key, appends key and value to the cache, attends to the cache,
/// and joins the splits of the context.
///
/// Workgroup (split, group) takes HEADS query heads. The context, or what a window holds of it, is split over workgroups and their subgroups by tiles; the grid
/// does not depend on the context length, so that one recording serves every position. Splits without a tile read their part of the weights of the operation
/// that follows, which then finds it in the cache. The workgroup of a group that finishes last joins the splits, in order, and the sinks of the heads behind
/// them. Every workgroup prepares the queries for itself. Those whose tiles hold positions of the step's rows, up to their own row's, write these to the cache
/// before they read them: what several write is the same.
pub mod attention {
    use super::KernelDef;

    /// `SPLITS_AHEAD` in GLSL.
    pub const SPLITS_AHEAD: u32 = 8;
    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[query_heads, HEAD_SIZE\] f32
        pub q: u64,
        /// \[KV_HEADS, HEAD_SIZE\] f32
        pub k: u64,
        /// \[KV_HEADS, HEAD_SIZE\] f32
        pub v: u64,
        /// \[HEAD_SIZE\] f32, read by NORMALISE; else of SINKS \[query_heads\] f32, since devices need not have room for more operands
        pub q_norm: u64,
        /// \[HEAD_SIZE\] f32, read by NORMALISE
        pub k_norm: u64,
        /// \[context, ROTATED / 2\] pairs (cos, sin) f32
        pub rotation: u64,
        /// \[positions, KV_HEADS * HEAD_SIZE\] in KEY_FORMAT
        pub key_cache: u64,
        /// \[positions, KV_HEADS * HEAD_SIZE\] in VALUE_FORMAT
        pub value_cache: u64,
        /// \[rows, groups, splits, HEADS * (HEAD_SIZE + 4)\] f32: weighted values; maxima and sums
        pub partials: u64,
        /// \[query_heads, HEAD_SIZE\] f32, or rounded
        pub y: u64,
        /// \[rows, groups\] u32, 0
        pub counters: u64,
        /// what the next operation reads, a multiple of 16 bytes
        pub next: u64,
        /// `next_bytes` in GLSL.
        pub next_bytes: u32,
        /// of a context, that there is room for in `partials`
        pub splits: u32,
        /// bytes from one row of the step to the next, as the strides below
        pub q_stride: u32,
        /// `k_stride` in GLSL.
        pub k_stride: u32,
        /// `v_stride` in GLSL.
        pub v_stride: u32,
        /// `y_stride` in GLSL.
        pub y_stride: u32,
    }
    const _: () = {
        assert!(size_of::<Push>() == 128);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, q) == 8);
        assert!(std::mem::offset_of!(Push, k) == 16);
        assert!(std::mem::offset_of!(Push, v) == 24);
        assert!(std::mem::offset_of!(Push, q_norm) == 32);
        assert!(std::mem::offset_of!(Push, k_norm) == 40);
        assert!(std::mem::offset_of!(Push, rotation) == 48);
        assert!(std::mem::offset_of!(Push, key_cache) == 56);
        assert!(std::mem::offset_of!(Push, value_cache) == 64);
        assert!(std::mem::offset_of!(Push, partials) == 72);
        assert!(std::mem::offset_of!(Push, y) == 80);
        assert!(std::mem::offset_of!(Push, counters) == 88);
        assert!(std::mem::offset_of!(Push, next) == 96);
        assert!(std::mem::offset_of!(Push, next_bytes) == 104);
        assert!(std::mem::offset_of!(Push, splits) == 108);
        assert!(std::mem::offset_of!(Push, q_stride) == 112);
        assert!(std::mem::offset_of!(Push, k_stride) == 116);
        assert!(std::mem::offset_of!(Push, v_stride) == 120);
        assert!(std::mem::offset_of!(Push, y_stride) == 124);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `HEAD_SIZE`.
        pub head_size: u32,
        /// Constant 3, `HEADS`.
        pub heads: u32,
        /// Constant 4, `KEY_FORMAT`.
        pub key_format: u32,
        /// Constant 5, `VALUE_FORMAT`.
        pub value_format: u32,
        /// Constant 6, `PAIRING`.
        pub pairing: u32,
        /// Constant 7, `NORMALISE`.
        pub normalise: u32,
        /// Constant 8, `OUT`.
        pub out: u32,
        /// Constant 9, `ROTATED`.
        pub rotated: u32,
        /// Constant 10, `KV_HEADS`.
        pub kv_heads: u32,
        /// Constant 11, `EPSILON`.
        pub epsilon: u32,
        /// Constant 12, `GROUPS`.
        pub groups: u32,
        /// Constant 13, `LANE_PAGES`.
        pub lane_pages: u32,
        /// Constant 14, `WINDOW`.
        pub window: u32,
        /// Constant 15, `SINKS`.
        pub sinks: u32,
        /// Constant 16, `RING_PAGES`.
        pub ring_pages: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 17] {
            [
                (0, self.workgroup),
                (1, self.subgroup),
                (2, self.head_size),
                (3, self.heads),
                (4, self.key_format),
                (5, self.value_format),
                (6, self.pairing),
                (7, self.normalise),
                (8, self.out),
                (9, self.rotated),
                (10, self.kv_heads),
                (11, self.epsilon),
                (12, self.groups),
                (13, self.lane_pages),
                (14, self.window),
                (15, self.sinks),
                (16, self.ring_pages),
            ]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "attention",
        spirv: include_bytes!("../spv/attention.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// Attention for many rows of a step, whose queries `append` has prepared and whose keys and values it has put into the cache. A subgroup does for a row
/// and HEADS query heads what the workgroups of `attention` do, one share after the other, with the same bits: where there are many rows, nothing is
/// gained by splitting the context of each.
pub mod attention_rows {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[query_heads, HEAD_SIZE\] f32, prepared
        pub q: u64,
        /// \[positions, KV_HEADS * HEAD_SIZE\] in KEY_FORMAT
        pub key_cache: u64,
        /// \[positions, KV_HEADS * HEAD_SIZE\] in VALUE_FORMAT
        pub value_cache: u64,
        /// \[query_heads, HEAD_SIZE\] f32; what is joined so far, until all is
        pub y: u64,
        /// \[query_heads\] f32, read by SINKS
        pub sinks: u64,
        /// that there are operands for
        pub rows: u32,
        /// workgroups that `attention` splits a context into
        pub splits: u32,
        /// bytes from one row of the step to the next, as y_stride
        pub q_stride: u32,
        /// `y_stride` in GLSL.
        pub y_stride: u32,
    }
    const _: () = {
        assert!(size_of::<Push>() == 64);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, q) == 8);
        assert!(std::mem::offset_of!(Push, key_cache) == 16);
        assert!(std::mem::offset_of!(Push, value_cache) == 24);
        assert!(std::mem::offset_of!(Push, y) == 32);
        assert!(std::mem::offset_of!(Push, sinks) == 40);
        assert!(std::mem::offset_of!(Push, rows) == 48);
        assert!(std::mem::offset_of!(Push, splits) == 52);
        assert!(std::mem::offset_of!(Push, q_stride) == 56);
        assert!(std::mem::offset_of!(Push, y_stride) == 60);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `HEAD_SIZE`.
        pub head_size: u32,
        /// Constant 3, `HEADS`.
        pub heads: u32,
        /// Constant 4, `KEY_FORMAT`.
        pub key_format: u32,
        /// Constant 5, `VALUE_FORMAT`.
        pub value_format: u32,
        /// Constant 6, `KV_HEADS`.
        pub kv_heads: u32,
        /// Constant 7, `GROUPS`.
        pub groups: u32,
        /// Constant 8, `SHARES`.
        pub shares: u32,
        /// Constant 9, `LANE_PAGES`.
        pub lane_pages: u32,
        /// Constant 10, `WINDOW`.
        pub window: u32,
        /// Constant 11, `SINKS`.
        pub sinks: u32,
        /// Constant 12, `RING_PAGES`.
        pub ring_pages: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 13] {
            [
                (0, self.workgroup),
                (1, self.subgroup),
                (2, self.head_size),
                (3, self.heads),
                (4, self.key_format),
                (5, self.value_format),
                (6, self.kv_heads),
                (7, self.groups),
                (8, self.shares),
                (9, self.lane_pages),
                (10, self.window),
                (11, self.sinks),
                (12, self.ring_pages),
            ]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "attention_rows",
        spirv: include_bytes!("../spv/attention_rows.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// The form of `attention_rows` for float matrix units, and caches of halves. Its numbers are those of the same form of `attention`.
///
/// A workgroup takes a block of pairs of a row and one of the query heads that share a key and value head, by row: each of its teams of 32 lanes a fragment of
/// 16 pairs, or two teams one together where heads are so large that the registers of one team have no room for their values. The rows of a lane are at positions
/// one behind the other, and every tile of its keys and values is staged once for all of them. Where rows of several lanes meet in a block, the workgroup attends
/// to the keys of one lane after the other, and keeps the results of that lane's rows alone. Where splits are joined, `y` holds the values of those joined so far.
pub mod attention_rows_units {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[query_heads, HEAD_SIZE\] f32, prepared
        pub q: u64,
        /// \[positions, KV_HEADS * HEAD_SIZE\] f16
        pub key_cache: u64,
        /// \[positions, KV_HEADS * HEAD_SIZE\] f16
        pub value_cache: u64,
        /// \[query_heads, HEAD_SIZE\] f32
        pub y: u64,
        /// \[query_heads\] f32, read by SINKS
        pub sinks: u64,
        /// that there are operands for
        pub rows: u32,
        /// bytes from one row of the step to the next, as y_stride
        pub q_stride: u32,
        /// `y_stride` in GLSL.
        pub y_stride: u32,
        /// Fills the struct to its alignment.
        pub padding: [u32; 1],
    }
    const _: () = {
        assert!(size_of::<Push>() == 64);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, q) == 8);
        assert!(std::mem::offset_of!(Push, key_cache) == 16);
        assert!(std::mem::offset_of!(Push, value_cache) == 24);
        assert!(std::mem::offset_of!(Push, y) == 32);
        assert!(std::mem::offset_of!(Push, sinks) == 40);
        assert!(std::mem::offset_of!(Push, rows) == 48);
        assert!(std::mem::offset_of!(Push, q_stride) == 52);
        assert!(std::mem::offset_of!(Push, y_stride) == 56);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `HEAD_SIZE`.
        pub head_size: u32,
        /// Constant 3, `HEADS`.
        pub heads: u32,
        /// Constant 4, `KV_HEADS`.
        pub kv_heads: u32,
        /// Constant 5, `QUERY_SCALE`.
        pub query_scale: u32,
        /// Constant 6, `LANE_PAGES`.
        pub lane_pages: u32,
        /// Constant 7, `WINDOW`.
        pub window: u32,
        /// Constant 8, `SINKS`.
        pub sinks: u32,
        /// Constant 9, `RING_PAGES`.
        pub ring_pages: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 10] {
            [
                (0, self.workgroup),
                (1, self.subgroup),
                (2, self.head_size),
                (3, self.heads),
                (4, self.kv_heads),
                (5, self.query_scale),
                (6, self.lane_pages),
                (7, self.window),
                (8, self.sinks),
                (9, self.ring_pages),
            ]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "attention_rows_units",
        spirv: include_bytes!("../spv/attention_rows_units.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
    /// The kernel with ordinary arithmetic in place of matrix units.
    pub static EMULATED: KernelDef = KernelDef {
        name: "attention_rows_units emulated",
        spirv: include_bytes!("../spv/attention_rows_units.emulated.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// The form of `attention` for float matrix units, and caches of halves.
///
/// Workgroup (share, group) takes HEADS query heads of a row, which are rows of one fragment, and every so many of the context's splits of 256 keys, or of those that a
/// window reaches into: as many as there are shares lie between two of its splits. Its teams of 32 lanes work on the fragment together. As in the other form the
/// grid does not depend on the context length, workgroups without a split read their part of the weights of the operation that follows, and the last workgroup of
/// a group to finish joins the splits, in order, and the sinks of the heads behind them.
pub mod attention_units {
    use super::KernelDef;

    /// `JOINED` in GLSL.
    pub const JOINED: u32 = 512;
    /// `SPLITS_AHEAD` in GLSL.
    pub const SPLITS_AHEAD: u32 = 8;
    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[query_heads, HEAD_SIZE\] f32
        pub q: u64,
        /// \[KV_HEADS, HEAD_SIZE\] f32
        pub k: u64,
        /// \[KV_HEADS, HEAD_SIZE\] f32
        pub v: u64,
        /// \[HEAD_SIZE\] f32, read by NORMALISE; else of SINKS \[query_heads\] f32, since devices need not have room for more operands
        pub q_norm: u64,
        /// \[HEAD_SIZE\] f32, read by NORMALISE
        pub k_norm: u64,
        /// \[context, ROTATED / 2\] pairs (cos, sin) f32
        pub rotation: u64,
        /// \[positions, KV_HEADS * HEAD_SIZE\] in KEY_FORMAT
        pub key_cache: u64,
        /// \[positions, KV_HEADS * HEAD_SIZE\] in VALUE_FORMAT
        pub value_cache: u64,
        /// \[rows, groups, splits, HEADS * (HEAD_SIZE + 4)\] f32: weighted values; maxima and sums
        pub partials: u64,
        /// \[query_heads, HEAD_SIZE\] f32, or rounded
        pub y: u64,
        /// \[rows, groups\] u32, 0
        pub counters: u64,
        /// what the next operation reads, a multiple of 16 bytes
        pub next: u64,
        /// `next_bytes` in GLSL.
        pub next_bytes: u32,
        /// of a context, that there is room for in `partials`
        pub splits: u32,
        /// bytes from one row of the step to the next, as the strides below
        pub q_stride: u32,
        /// `k_stride` in GLSL.
        pub k_stride: u32,
        /// `v_stride` in GLSL.
        pub v_stride: u32,
        /// `y_stride` in GLSL.
        pub y_stride: u32,
    }
    const _: () = {
        assert!(size_of::<Push>() == 128);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, q) == 8);
        assert!(std::mem::offset_of!(Push, k) == 16);
        assert!(std::mem::offset_of!(Push, v) == 24);
        assert!(std::mem::offset_of!(Push, q_norm) == 32);
        assert!(std::mem::offset_of!(Push, k_norm) == 40);
        assert!(std::mem::offset_of!(Push, rotation) == 48);
        assert!(std::mem::offset_of!(Push, key_cache) == 56);
        assert!(std::mem::offset_of!(Push, value_cache) == 64);
        assert!(std::mem::offset_of!(Push, partials) == 72);
        assert!(std::mem::offset_of!(Push, y) == 80);
        assert!(std::mem::offset_of!(Push, counters) == 88);
        assert!(std::mem::offset_of!(Push, next) == 96);
        assert!(std::mem::offset_of!(Push, next_bytes) == 104);
        assert!(std::mem::offset_of!(Push, splits) == 108);
        assert!(std::mem::offset_of!(Push, q_stride) == 112);
        assert!(std::mem::offset_of!(Push, k_stride) == 116);
        assert!(std::mem::offset_of!(Push, v_stride) == 120);
        assert!(std::mem::offset_of!(Push, y_stride) == 124);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `HEAD_SIZE`.
        pub head_size: u32,
        /// Constant 3, `HEADS`.
        pub heads: u32,
        /// Constant 4, `PAIRING`.
        pub pairing: u32,
        /// Constant 5, `NORMALISE`.
        pub normalise: u32,
        /// Constant 6, `OUT`.
        pub out: u32,
        /// Constant 7, `ROTATED`.
        pub rotated: u32,
        /// Constant 8, `KV_HEADS`.
        pub kv_heads: u32,
        /// Constant 9, `EPSILON`.
        pub epsilon: u32,
        /// Constant 10, `GROUPS`.
        pub groups: u32,
        /// Constant 11, `QUERY_SCALE`.
        pub query_scale: u32,
        /// Constant 12, `LANE_PAGES`.
        pub lane_pages: u32,
        /// Constant 13, `WINDOW`.
        pub window: u32,
        /// Constant 14, `SINKS`.
        pub sinks: u32,
        /// Constant 15, `SHARING_ROWS`.
        pub sharing_rows: u32,
        /// Constant 16, `RING_PAGES`.
        pub ring_pages: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 17] {
            [
                (0, self.workgroup),
                (1, self.subgroup),
                (2, self.head_size),
                (3, self.heads),
                (4, self.pairing),
                (5, self.normalise),
                (6, self.out),
                (7, self.rotated),
                (8, self.kv_heads),
                (9, self.epsilon),
                (10, self.groups),
                (11, self.query_scale),
                (12, self.lane_pages),
                (13, self.window),
                (14, self.sinks),
                (15, self.sharing_rows),
                (16, self.ring_pages),
            ]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "attention_units",
        spirv: include_bytes!("../spv/attention_units.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
    /// The kernel with ordinary arithmetic in place of matrix units.
    pub static EMULATED: KernelDef = KernelDef {
        name: "attention_units emulated",
        spirv: include_bytes!("../spv/attention_units.emulated.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// Ends sequences between two submissions of a step, where the host has cancelled them: their lanes have no rows from here on, neither in what is left of the step
/// nor in the steps queued behind it. Where lanes of others go on, the table of rows stays as it is, and what is computed of a cancelled lane's rows counts for
/// nothing; once no lane has rows, the table is emptied, so that the rest of the step becomes a no-op. One subgroup.
pub mod cancel {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[lanes\] u32, host-visible: for each lane the sequence that the host wants stopped
        pub cancelled: u64,
    }
    const _: () = {
        assert!(size_of::<Push>() == 16);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, cancelled) == 8);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 2] {
            [(0, self.workgroup), (1, self.subgroup)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef =
        KernelDef { name: "cancel", spirv: include_bytes!("../spv/cancel.spv"), push_bytes: size_of::<Push>() as u32 };
}

/// Products of signed bytes whose results are known, by which the host finds out whether a device's integer matrix units give what the products of
/// `blocks.glsl` take them to give: exact sums, a number of each row or of each vector where they are loaded with a stride of 0, and results that lie where
/// they are stored. Further products, `rounds` of them onto each of SUMS fragments, take time: how much tells the rate of the units.
pub mod check_bytes_units {
    use super::KernelDef;

    /// `SUMS` in GLSL.
    pub const SUMS: u32 = 8;
    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[3, 16 vectors, 16 rows\] f32: scaled products, pairs of numbers, sums of all rounds
        pub y: u64,
        /// `rounds` in GLSL.
        pub rounds: u32,
        /// `padding` in GLSL.
        pub padding: [u32; 1],
    }
    const _: () = {
        assert!(size_of::<Push>() == 24);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, y) == 8);
        assert!(std::mem::offset_of!(Push, rounds) == 16);
        assert!(std::mem::offset_of!(Push, padding) == 20);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `DEPTH`.
        pub depth: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 3] {
            [(0, self.workgroup), (1, self.subgroup), (2, self.depth)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "check_bytes_units",
        spirv: include_bytes!("../spv/check_bytes_units.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
    /// The kernel with ordinary arithmetic in place of matrix units.
    pub static EMULATED: KernelDef = KernelDef {
        name: "check_bytes_units emulated",
        spirv: include_bytes!("../spv/check_bytes_units.emulated.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// Products of halves by which the host finds out whether a device's float matrix units hold fragments as `half_fragments.glsl` says, and whether a row's
/// results depend on its place or on what is beside it, as attention must not have it. Further products, `rounds` of them onto each of SUMS fragments, take
/// time: how much tells the rate of the units.
pub mod check_halves_units {
    use super::KernelDef;

    /// `BLOCKS` in GLSL.
    pub const BLOCKS: u32 = 4;
    /// `SUMS` in GLSL.
    pub const SUMS: u32 = 8;
    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// f32: \[32, 8\] and \[32, 8\] by lane, \[16 turns, 16 columns\], \[16 turns, 16 rows\], and \[32, 8\] by lane: the sums of all rounds
        pub y: u64,
        /// `rounds` in GLSL.
        pub rounds: u32,
        /// `padding` in GLSL.
        pub padding: [u32; 1],
    }
    const _: () = {
        assert!(size_of::<Push>() == 24);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, y) == 8);
        assert!(std::mem::offset_of!(Push, rounds) == 16);
        assert!(std::mem::offset_of!(Push, padding) == 20);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 2] {
            [(0, self.workgroup), (1, self.subgroup)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "check_halves_units",
        spirv: include_bytes!("../spv/check_halves_units.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
    /// The kernel with ordinary arithmetic in place of matrix units.
    pub static EMULATED: KernelDef = KernelDef {
        name: "check_halves_units emulated",
        spirv: include_bytes!("../spv/check_halves_units.emulated.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// The second half of the sampler chain: top-n-sigma, top-k, typical, top-p, min-p, XTC, and the draw. One workgroup.
///
/// It chooses among the candidates that `adjust` listed. No stage sorts or moves them: each narrows the bounds of what is still in the running
/// (select.glsl), by sums of integers. At least one candidate stays at every point. Where each stage's definition comes from is said in its
/// reference.
pub mod choose {
    use super::KernelDef;

    /// `XTC` in GLSL.
    pub const XTC: u32 = 3;
    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[vocabulary\] f32, as the model gave them
        pub logits: u64,
        /// the candidates, by shares
        pub items: u64,
        /// \[shares\] Share
        pub shares: u64,
        /// \[shares\] Moments, read for top-n-sigma
        pub moments: u64,
        /// \[1\] Candidate
        pub candidates: u64,
        /// `vocabulary` in GLSL.
        pub vocabulary: u32,
        /// bytes from one row of the step to the next, as the strides below
        pub logits_stride: u32,
        /// `items_stride` in GLSL.
        pub items_stride: u32,
        /// `shares_stride` in GLSL.
        pub shares_stride: u32,
        /// `moments_stride` in GLSL.
        pub moments_stride: u32,
        /// `candidates_stride` in GLSL.
        pub candidates_stride: u32,
    }
    const _: () = {
        assert!(size_of::<Push>() == 72);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, logits) == 8);
        assert!(std::mem::offset_of!(Push, items) == 16);
        assert!(std::mem::offset_of!(Push, shares) == 24);
        assert!(std::mem::offset_of!(Push, moments) == 32);
        assert!(std::mem::offset_of!(Push, candidates) == 40);
        assert!(std::mem::offset_of!(Push, vocabulary) == 48);
        assert!(std::mem::offset_of!(Push, logits_stride) == 52);
        assert!(std::mem::offset_of!(Push, items_stride) == 56);
        assert!(std::mem::offset_of!(Push, shares_stride) == 60);
        assert!(std::mem::offset_of!(Push, moments_stride) == 64);
        assert!(std::mem::offset_of!(Push, candidates_stride) == 68);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `AT_A_TIME`.
        pub at_a_time: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 3] {
            [(0, self.workgroup), (1, self.subgroup), (2, self.at_a_time)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef =
        KernelDef { name: "choose", spirv: include_bytes!("../spv/choose.spv"), push_bytes: size_of::<Push>() as u32 };
}

/// The short convolution of a gated delta net: of each channel of queries, keys and values the weighted sum of its last TAPS positions, through silu.
/// A thread takes four neighbouring channels of ROWS rows of the step.
///
/// Earlier positions than those of the step come from the lane's recurrent state. The thread of the lane's first row does all rows that need them, and
/// then puts the step's last positions there, so that it alone touches its channels of that state.
pub mod delta_conv {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[CHANNELS\] f32
        pub x: u64,
        /// \[CHANNELS, TAPS\] f32: the last is the present position's
        pub weights: u64,
        /// the recurrent state of lane 0
        pub recurrent: u64,
        /// \[CHANNELS\] f32
        pub y: u64,
        /// bytes from one row of the step to the next, as y_stride
        pub x_stride: u32,
        /// `y_stride` in GLSL.
        pub y_stride: u32,
        /// bytes from one lane's recurrent state to the next one's
        pub recurrent_stride: u32,
        /// Fills the struct to its alignment.
        pub padding: [u32; 1],
    }
    const _: () = {
        assert!(size_of::<Push>() == 56);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, x) == 8);
        assert!(std::mem::offset_of!(Push, weights) == 16);
        assert!(std::mem::offset_of!(Push, recurrent) == 24);
        assert!(std::mem::offset_of!(Push, y) == 32);
        assert!(std::mem::offset_of!(Push, x_stride) == 40);
        assert!(std::mem::offset_of!(Push, y_stride) == 44);
        assert!(std::mem::offset_of!(Push, recurrent_stride) == 48);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `KEY_HEADS`.
        pub key_heads: u32,
        /// Constant 3, `VALUE_HEADS`.
        pub value_heads: u32,
        /// Constant 4, `HEAD_SIZE`.
        pub head_size: u32,
        /// Constant 5, `DRAFTS`.
        pub drafts: u32,
        /// Constant 6, `ROWS`.
        pub rows: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 7] {
            [
                (0, self.workgroup),
                (1, self.subgroup),
                (2, self.key_heads),
                (3, self.value_heads),
                (4, self.head_size),
                (5, self.drafts),
                (6, self.rows),
            ]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "delta_conv",
        spirv: include_bytes!("../spv/delta_conv.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// The gated delta rule: takes the rows of each lane of the step into the memories of its heads, one after the other, and reads of each what its query
/// asks for.
///
/// Eight lanes of a subgroup take a column of a head's matrix and keep it in registers: all rows of a lane of the step are a loop here, so that a
/// row's bits do not depend on how many there are. No column needs another. Before the step's own rows come the drafts of the step before that were
/// accepted. (Yang, Kautz, Hatamizadeh: Gated Delta Networks, 2024.)
pub mod delta_net {
    use super::KernelDef;

    /// `TILED` in GLSL.
    pub const TILED: u32 = 0;
    /// `GROUPED` in GLSL.
    pub const GROUPED: u32 = 1;
    /// `COLUMN_LANES` in GLSL.
    pub const COLUMN_LANES: u32 = 8;
    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[CHANNELS\] f32: queries, keys and values behind the convolution
        pub x: u64,
        /// \[VALUE_HEADS\] f32: how much of a value is written, before the sigmoid
        pub beta: u64,
        /// \[VALUE_HEADS\] f32: how much is forgotten, before softplus
        pub alpha: u64,
        /// \[VALUE_HEADS\] f32
        pub alpha_bias: u64,
        /// \[VALUE_HEADS\] f32: at most 0
        pub decay: u64,
        /// the recurrent state of lane 0
        pub recurrent: u64,
        /// \[VALUE_HEADS, HEAD_SIZE\] f32
        pub y: u64,
        /// bytes from one row of the step to the next, as the strides below
        pub x_stride: u32,
        /// `beta_stride` in GLSL.
        pub beta_stride: u32,
        /// `alpha_stride` in GLSL.
        pub alpha_stride: u32,
        /// `y_stride` in GLSL.
        pub y_stride: u32,
        /// bytes from one lane's recurrent state to the next one's
        pub recurrent_stride: u32,
        /// Fills the struct to its alignment.
        pub padding: [u32; 1],
    }
    const _: () = {
        assert!(size_of::<Push>() == 88);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, x) == 8);
        assert!(std::mem::offset_of!(Push, beta) == 16);
        assert!(std::mem::offset_of!(Push, alpha) == 24);
        assert!(std::mem::offset_of!(Push, alpha_bias) == 32);
        assert!(std::mem::offset_of!(Push, decay) == 40);
        assert!(std::mem::offset_of!(Push, recurrent) == 48);
        assert!(std::mem::offset_of!(Push, y) == 56);
        assert!(std::mem::offset_of!(Push, x_stride) == 64);
        assert!(std::mem::offset_of!(Push, beta_stride) == 68);
        assert!(std::mem::offset_of!(Push, alpha_stride) == 72);
        assert!(std::mem::offset_of!(Push, y_stride) == 76);
        assert!(std::mem::offset_of!(Push, recurrent_stride) == 80);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `KEY_HEADS`.
        pub key_heads: u32,
        /// Constant 3, `VALUE_HEADS`.
        pub value_heads: u32,
        /// Constant 4, `HEAD_SIZE`.
        pub head_size: u32,
        /// Constant 5, `DRAFTS`.
        pub drafts: u32,
        /// Constant 6, `HEAD_ORDER`.
        pub head_order: u32,
        /// Constant 7, `QUERY_SCALE`.
        pub query_scale: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 8] {
            [
                (0, self.workgroup),
                (1, self.subgroup),
                (2, self.key_heads),
                (3, self.value_heads),
                (4, self.head_size),
                (5, self.drafts),
                (6, self.head_order),
                (7, self.query_scale),
            ]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "delta_net",
        spirv: include_bytes!("../spv/delta_net.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// DRY: of each token of the window, how long the repetition is that it would extend at the end of the history.
///
/// One workgroup. A thread takes places of the window in turn, counts how many tokens before the place are those at the end of the history, and
/// raises the length of the token at the place. What it reads are tokens only, so that it runs beside the model. (DRY, by p-e-w:
/// oobabooga/text-generation-webui, pull request 5677, 2024; sequence breakers and limits as in llama.cpp.)
pub mod dry {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[vocabulary\] u32, zeros: raised to one more than the length of a repetition that costs something
        pub dry_lengths: u64,
        /// bytes from one row of the step to the next
        pub dry_lengths_stride: u32,
        /// Fills the struct to its alignment.
        pub padding: [u32; 1],
    }
    const _: () = {
        assert!(size_of::<Push>() == 24);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, dry_lengths) == 8);
        assert!(std::mem::offset_of!(Push, dry_lengths_stride) == 16);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 2] {
            [(0, self.workgroup), (1, self.subgroup)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef =
        KernelDef { name: "dry", spirv: include_bytes!("../spv/dry.spv"), push_bytes: size_of::<Push>() as u32 };
}

/// The second half of an expert layer, onto the residual stream: y += sum over slots of weight\[s\] * (D\[ids\[s\]\] h\[s\] + bias\[ids\[s\]\]), plus what a shared
/// expert gives times the sigmoid of its gate.
/// A subgroup computes one row: its lanes share out the quarters of all slots.
pub mod expert_down {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[experts, rows, COLUMNS\] in FORMAT, rows in planes: less than 4 GiB
        pub down: u64,
        /// \[SLOTS\] u32
        pub ids: u64,
        /// \[SLOTS\] f32
        pub weights: u64,
        /// \[SLOTS, COLUMNS\] f32, or rounded
        pub h: u64,
        /// \[rows\] f32
        pub y: u64,
        /// \[experts, rows\] f32, read where BIAS is 1
        pub bias: u64,
        /// \[rows\] f32, what the shared expert gives, read where SHARED is 1
        pub shared_y: u64,
        /// 1 f32, the logit of its gate, likewise
        pub shared_logit: u64,
        /// `rows` in GLSL.
        pub rows: u32,
        /// bytes from one row of the step to the next, as the strides below
        pub ids_stride: u32,
        /// `weights_stride` in GLSL.
        pub weights_stride: u32,
        /// `h_stride` in GLSL.
        pub h_stride: u32,
        /// `y_stride` in GLSL.
        pub y_stride: u32,
        /// `shared_y_stride` in GLSL.
        pub shared_y_stride: u32,
        /// `shared_logit_stride` in GLSL.
        pub shared_logit_stride: u32,
        /// Fills the struct to its alignment.
        pub padding: [u32; 1],
    }
    const _: () = {
        assert!(size_of::<Push>() == 104);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, down) == 8);
        assert!(std::mem::offset_of!(Push, ids) == 16);
        assert!(std::mem::offset_of!(Push, weights) == 24);
        assert!(std::mem::offset_of!(Push, h) == 32);
        assert!(std::mem::offset_of!(Push, y) == 40);
        assert!(std::mem::offset_of!(Push, bias) == 48);
        assert!(std::mem::offset_of!(Push, shared_y) == 56);
        assert!(std::mem::offset_of!(Push, shared_logit) == 64);
        assert!(std::mem::offset_of!(Push, rows) == 72);
        assert!(std::mem::offset_of!(Push, ids_stride) == 76);
        assert!(std::mem::offset_of!(Push, weights_stride) == 80);
        assert!(std::mem::offset_of!(Push, h_stride) == 84);
        assert!(std::mem::offset_of!(Push, y_stride) == 88);
        assert!(std::mem::offset_of!(Push, shared_y_stride) == 92);
        assert!(std::mem::offset_of!(Push, shared_logit_stride) == 96);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `ACT`.
        pub act: u32,
        /// Constant 3, `COLUMNS`.
        pub columns: u32,
        /// Constant 4, `FORMAT`.
        pub format: u32,
        /// Constant 5, `SLOTS`.
        pub slots: u32,
        /// Constant 6, `AHEAD`.
        pub ahead: u32,
        /// Constant 7, `SOURCE`.
        pub source: u32,
        /// Constant 8, `BIAS`.
        pub bias: u32,
        /// Constant 9, `SHARED`.
        pub shared: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 10] {
            [
                (0, self.workgroup),
                (1, self.subgroup),
                (2, self.act),
                (3, self.columns),
                (4, self.format),
                (5, self.slots),
                (6, self.ahead),
                (7, self.source),
                (8, self.bias),
                (9, self.shared),
            ]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "expert_down",
        spirv: include_bytes!("../spv/expert_down.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// The first half of a feed-forward layer: y = activated(G x, U x), such as silu(G x) * (U x), for each chosen expert, or for a dense layer. A workgroup
/// computes one run of 16 elements of one slot, or several: what it needs to know of the vector and of the chosen experts serves all of them. Of a dense layer
/// it computes them for VECTORS vectors, those of as many rows of the step, so that weights are read and unpacked once for all of them.
/// (Shazeer: GLU Variants Improve Transformer, 2020.)
pub mod gate_up {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[experts, rows, COLUMNS\] in GATE_FORMAT, rows in planes
        pub gate: u64,
        /// \[experts, rows, COLUMNS\] in UP_FORMAT, rows in planes
        pub up: u64,
        /// \[EXPERTS\] f32, the router's
        pub logits: u64,
        /// \[slots\] u32, written where there are experts
        pub ids: u64,
        /// \[slots\] f32, likewise
        pub weights: u64,
        /// \[COLUMNS\]
        pub x: u64,
        /// \[COLUMNS\] f32, read where SOURCE is NORMALISED
        pub norm: u64,
        /// \[slots, rows\] f32
        pub y: u64,
        /// a multiple of 16
        pub rows: u32,
        /// chosen experts, at most MAX_USED
        pub slots: u32,
        /// `epsilon` in GLSL.
        pub epsilon: f32,
        /// bytes from one row of the step to the next, as the strides below
        pub logits_stride: u32,
        /// `ids_stride` in GLSL.
        pub ids_stride: u32,
        /// `weights_stride` in GLSL.
        pub weights_stride: u32,
        /// `x_stride` in GLSL.
        pub x_stride: u32,
        /// `y_stride` in GLSL.
        pub y_stride: u32,
        /// \[experts, rows\] f32, read where BIASES is 1
        pub gate_bias: u64,
        /// likewise
        pub up_bias: u64,
    }
    const _: () = {
        assert!(size_of::<Push>() == 120);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, gate) == 8);
        assert!(std::mem::offset_of!(Push, up) == 16);
        assert!(std::mem::offset_of!(Push, logits) == 24);
        assert!(std::mem::offset_of!(Push, ids) == 32);
        assert!(std::mem::offset_of!(Push, weights) == 40);
        assert!(std::mem::offset_of!(Push, x) == 48);
        assert!(std::mem::offset_of!(Push, norm) == 56);
        assert!(std::mem::offset_of!(Push, y) == 64);
        assert!(std::mem::offset_of!(Push, rows) == 72);
        assert!(std::mem::offset_of!(Push, slots) == 76);
        assert!(std::mem::offset_of!(Push, epsilon) == 80);
        assert!(std::mem::offset_of!(Push, logits_stride) == 84);
        assert!(std::mem::offset_of!(Push, ids_stride) == 88);
        assert!(std::mem::offset_of!(Push, weights_stride) == 92);
        assert!(std::mem::offset_of!(Push, x_stride) == 96);
        assert!(std::mem::offset_of!(Push, y_stride) == 100);
        assert!(std::mem::offset_of!(Push, gate_bias) == 104);
        assert!(std::mem::offset_of!(Push, up_bias) == 112);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `ACT`.
        pub act: u32,
        /// Constant 3, `COLUMNS`.
        pub columns: u32,
        /// Constant 4, `SOURCE`.
        pub source: u32,
        /// Constant 5, `EXPERTS`.
        pub experts: u32,
        /// Constant 6, `GATE_FORMAT`.
        pub gate_format: u32,
        /// Constant 7, `UP_FORMAT`.
        pub up_format: u32,
        /// Constant 8, `AHEAD`.
        pub ahead: u32,
        /// Constant 9, `WEIGHTING`.
        pub weighting: u32,
        /// Constant 10, `RUNS_OF_WORKGROUP`.
        pub runs_of_workgroup: u32,
        /// Constant 11, `ACTIVATION`.
        pub activation: u32,
        /// Constant 12, `BIASES`.
        pub biases: u32,
        /// Constant 13, `VECTORS`.
        pub vectors: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 14] {
            [
                (0, self.workgroup),
                (1, self.subgroup),
                (2, self.act),
                (3, self.columns),
                (4, self.source),
                (5, self.experts),
                (6, self.gate_format),
                (7, self.up_format),
                (8, self.ahead),
                (9, self.weighting),
                (10, self.runs_of_workgroup),
                (11, self.activation),
                (12, self.biases),
                (13, self.vectors),
            ]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "gate_up",
        spirv: include_bytes!("../spv/gate_up.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// The first half of a feed-forward layer for many rows of the step: y = activated(G x, U x), such as silu(G x) * (U x), for the pairs that `route` has
/// sorted by expert, or for all rows of a dense layer. A workgroup has some rows of a pair of matrices, and a tile of vectors.
/// (Shazeer: GLU Variants Improve Transformer, 2020.)
pub mod gate_up_mul {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[experts, rows, COLUMNS\] in its format, rows in planes
        pub gate: u64,
        /// \[experts, rows, COLUMNS\] in its format, rows in planes
        pub up: u64,
        /// \[experts, rows\] f32, read where BIASES is 1
        pub gate_bias: u64,
        /// likewise
        pub up_bias: u64,
        /// \[COLUMNS\] rounded
        pub x: u64,
        /// \[slots, rows\] f32
        pub y: u64,
        /// \[rows, slots\] u32, read where there are tiles
        pub pairs: u64,
        /// the list of tiles; 0 in a dense layer
        pub tiles: u64,
        /// see `begin_values`; 0 where workgroups do not share groups
        pub group_values: u64,
        /// `rows` in GLSL.
        pub rows: u32,
        /// chosen experts of each row; 1 in a dense layer
        pub slots: u32,
        /// rows of the step that the launch is for
        pub room: u32,
        /// bytes from one row of the step to the next, as y_stride
        pub x_stride: u32,
        /// `y_stride` in GLSL.
        pub y_stride: u32,
        /// Fills the struct to its alignment.
        pub padding: [u32; 1],
    }
    const _: () = {
        assert!(size_of::<Push>() == 104);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, gate) == 8);
        assert!(std::mem::offset_of!(Push, up) == 16);
        assert!(std::mem::offset_of!(Push, gate_bias) == 24);
        assert!(std::mem::offset_of!(Push, up_bias) == 32);
        assert!(std::mem::offset_of!(Push, x) == 40);
        assert!(std::mem::offset_of!(Push, y) == 48);
        assert!(std::mem::offset_of!(Push, pairs) == 56);
        assert!(std::mem::offset_of!(Push, tiles) == 64);
        assert!(std::mem::offset_of!(Push, group_values) == 72);
        assert!(std::mem::offset_of!(Push, rows) == 80);
        assert!(std::mem::offset_of!(Push, slots) == 84);
        assert!(std::mem::offset_of!(Push, room) == 88);
        assert!(std::mem::offset_of!(Push, x_stride) == 92);
        assert!(std::mem::offset_of!(Push, y_stride) == 96);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `COLUMNS`.
        pub columns: u32,
        /// Constant 3, `LISTED`.
        pub listed: u32,
        /// Constant 4, `TILE`.
        pub tile: u32,
        /// Constant 5, `QUAD_ROWS`.
        pub quad_rows: u32,
        /// Constant 6, `GATE_FORMAT`.
        pub gate_format: u32,
        /// Constant 7, `UP_FORMAT`.
        pub up_format: u32,
        /// Constant 8, `ACTIVATION`.
        pub activation: u32,
        /// Constant 9, `BIASES`.
        pub biases: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 10] {
            [
                (0, self.workgroup),
                (1, self.subgroup),
                (2, self.columns),
                (3, self.listed),
                (4, self.tile),
                (5, self.quad_rows),
                (6, self.gate_format),
                (7, self.up_format),
                (8, self.activation),
                (9, self.biases),
            ]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "gate_up_mul",
        spirv: include_bytes!("../spv/gate_up_mul.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
    /// The kernel that takes the vectors of a tile one after the other.
    pub static IN_TURN: KernelDef = KernelDef {
        name: "gate_up_mul in turn",
        spirv: include_bytes!("../spv/gate_up_mul.in_turn.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// The form of `gate_up_mul` for integer matrix units, and matrices of one format. Its numbers are those of the other form.
pub mod gate_up_mul_units {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[experts, rows, COLUMNS\] in its format, rows in planes
        pub gate: u64,
        /// \[experts, rows, COLUMNS\] in its format, rows in planes
        pub up: u64,
        /// \[experts, rows\] f32, read where BIASES is 1
        pub gate_bias: u64,
        /// likewise
        pub up_bias: u64,
        /// \[COLUMNS\] rounded
        pub x: u64,
        /// \[slots, rows\] f32
        pub y: u64,
        /// \[rows, slots\] u32, read where there are tiles
        pub pairs: u64,
        /// the list of tiles; 0 in a dense layer
        pub tiles: u64,
        /// see `begin_values`; 0 where workgroups do not share groups
        pub group_values: u64,
        /// `rows` in GLSL.
        pub rows: u32,
        /// chosen experts of each row; 1 in a dense layer
        pub slots: u32,
        /// rows of the step that the launch is for
        pub room: u32,
        /// bytes from one row of the step to the next, as y_stride
        pub x_stride: u32,
        /// `y_stride` in GLSL.
        pub y_stride: u32,
        /// Fills the struct to its alignment.
        pub padding: [u32; 1],
    }
    const _: () = {
        assert!(size_of::<Push>() == 104);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, gate) == 8);
        assert!(std::mem::offset_of!(Push, up) == 16);
        assert!(std::mem::offset_of!(Push, gate_bias) == 24);
        assert!(std::mem::offset_of!(Push, up_bias) == 32);
        assert!(std::mem::offset_of!(Push, x) == 40);
        assert!(std::mem::offset_of!(Push, y) == 48);
        assert!(std::mem::offset_of!(Push, pairs) == 56);
        assert!(std::mem::offset_of!(Push, tiles) == 64);
        assert!(std::mem::offset_of!(Push, group_values) == 72);
        assert!(std::mem::offset_of!(Push, rows) == 80);
        assert!(std::mem::offset_of!(Push, slots) == 84);
        assert!(std::mem::offset_of!(Push, room) == 88);
        assert!(std::mem::offset_of!(Push, x_stride) == 92);
        assert!(std::mem::offset_of!(Push, y_stride) == 96);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `COLUMNS`.
        pub columns: u32,
        /// Constant 3, `LISTED`.
        pub listed: u32,
        /// Constant 4, `TILE`.
        pub tile: u32,
        /// Constant 5, `DEPTH`.
        pub depth: u32,
        /// Constant 6, `STAGE_RUNS`.
        pub stage_runs: u32,
        /// Constant 7, `ROW_SUBGROUPS`.
        pub row_subgroups: u32,
        /// Constant 8, `ROW_FRAGMENTS`.
        pub row_fragments: u32,
        /// Constant 9, `RAGGED`.
        pub ragged: u32,
        /// Constant 10, `GAPS`.
        pub gaps: u32,
        /// Constant 11, `PART_SCALES`.
        pub part_scales: u32,
        /// Constant 12, `MINIMUMS`.
        pub minimums: u32,
        /// Constant 13, `CHUNK_SUMS`.
        pub chunk_sums: u32,
        /// Constant 14, `FORMAT`.
        pub format: u32,
        /// Constant 15, `ACTIVATION`.
        pub activation: u32,
        /// Constant 16, `BIASES`.
        pub biases: u32,
        /// Constant 17, `SPLITS`.
        pub splits: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 18] {
            [
                (0, self.workgroup),
                (1, self.subgroup),
                (2, self.columns),
                (3, self.listed),
                (4, self.tile),
                (5, self.depth),
                (6, self.stage_runs),
                (7, self.row_subgroups),
                (8, self.row_fragments),
                (9, self.ragged),
                (10, self.gaps),
                (11, self.part_scales),
                (12, self.minimums),
                (13, self.chunk_sums),
                (14, self.format),
                (15, self.activation),
                (16, self.biases),
                (17, self.splits),
            ]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "gate_up_mul_units",
        spirv: include_bytes!("../spv/gate_up_mul_units.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
    /// The kernel with ordinary arithmetic in place of matrix units.
    pub static EMULATED: KernelDef = KernelDef {
        name: "gate_up_mul_units emulated",
        spirv: include_bytes!("../spv/gate_up_mul_units.emulated.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// Embedding: decodes the token of each row of the step, or the token behind it, into a vector of that row. One thread decodes one chunk of 32 elements.
pub mod gather {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[vocabulary, columns\] in FORMAT, rows in planes
        pub table: u64,
        /// \[columns\] f32
        pub y: u64,
        /// `columns` in GLSL.
        pub columns: u32,
        /// bytes from one row of the step to the next
        pub y_stride: u32,
    }
    const _: () = {
        assert!(size_of::<Push>() == 32);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, table) == 8);
        assert!(std::mem::offset_of!(Push, y) == 16);
        assert!(std::mem::offset_of!(Push, columns) == 24);
        assert!(std::mem::offset_of!(Push, y_stride) == 28);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `FORMAT`.
        pub format: u32,
        /// Constant 3, `BEHIND`.
        pub behind: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 4] {
            [(0, self.workgroup), (1, self.subgroup), (2, self.format), (3, self.behind)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef =
        KernelDef { name: "gather", spirv: include_bytes!("../spv/gather.spv"), push_bytes: size_of::<Push>() as u32 };
}

/// Multiplies the results of a layer's heads by what opens their gates, for the product that follows: silu(gate) behind a gated delta net, where each head
/// is RMS-normalised before, or sigmoid(gate) behind gated attention. A subgroup takes a group of 256 elements, which may be rounded for that product.
pub mod head_gate {
    use super::KernelDef;

    /// `SILU` in GLSL.
    pub const SILU: u32 = 0;
    /// `SIGMOID` in GLSL.
    pub const SIGMOID: u32 = 1;
    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[COLUMNS / HEAD_SIZE, HEAD_SIZE\] f32
        pub x: u64,
        /// \[COLUMNS\] f32
        pub gate: u64,
        /// \[HEAD_SIZE\] f32, of every head, read where NORMALISES is 1
        pub norm: u64,
        /// \[COLUMNS\] f32 or rounded; it may be x if it is f32
        pub y: u64,
        /// bytes from one row of the step to the next, as the strides below
        pub x_stride: u32,
        /// `gate_stride` in GLSL.
        pub gate_stride: u32,
        /// `y_stride` in GLSL.
        pub y_stride: u32,
        /// Fills the struct to its alignment.
        pub padding: [u32; 1],
    }
    const _: () = {
        assert!(size_of::<Push>() == 56);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, x) == 8);
        assert!(std::mem::offset_of!(Push, gate) == 16);
        assert!(std::mem::offset_of!(Push, norm) == 24);
        assert!(std::mem::offset_of!(Push, y) == 32);
        assert!(std::mem::offset_of!(Push, x_stride) == 40);
        assert!(std::mem::offset_of!(Push, gate_stride) == 44);
        assert!(std::mem::offset_of!(Push, y_stride) == 48);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `COLUMNS`.
        pub columns: u32,
        /// Constant 3, `HEAD_SIZE`.
        pub head_size: u32,
        /// Constant 4, `NORMALISES`.
        pub normalises: u32,
        /// Constant 5, `EPSILON`.
        pub epsilon: u32,
        /// Constant 6, `OPENING`.
        pub opening: u32,
        /// Constant 7, `OUT`.
        pub out: u32,
        /// Constant 8, `ORDERED`.
        pub ordered: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 9] {
            [
                (0, self.workgroup),
                (1, self.subgroup),
                (2, self.columns),
                (3, self.head_size),
                (4, self.normalises),
                (5, self.epsilon),
                (6, self.opening),
                (7, self.out),
                (8, self.ordered),
            ]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "head_gate",
        spirv: include_bytes!("../spv/head_gate.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// Joins what the chosen experts of each row give, onto the residual stream: y = y + (weights\[0\] * products\[0\] + weights\[1\] * products\[1\] + ...), in the
/// order of their ranks, the last term being what a shared expert gives times the sigmoid of its gate. A thread joins four neighbouring elements.
pub mod join {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[slots, width\] f32
        pub products: u64,
        /// \[slots\] f32
        pub weights: u64,
        /// \[width\] f32
        pub y: u64,
        /// \[width\] f32, what the shared expert gives, read where SHARED is 1
        pub shared_y: u64,
        /// 1 f32, the logit of its gate, likewise
        pub shared_logit: u64,
        /// a multiple of 4
        pub width: u32,
        /// at least 1
        pub slots: u32,
        /// bytes from one row of the step to the next, as the strides below
        pub products_stride: u32,
        /// `weights_stride` in GLSL.
        pub weights_stride: u32,
        /// `y_stride` in GLSL.
        pub y_stride: u32,
        /// `shared_y_stride` in GLSL.
        pub shared_y_stride: u32,
        /// `shared_logit_stride` in GLSL.
        pub shared_logit_stride: u32,
        /// Fills the struct to its alignment.
        pub padding: [u32; 1],
    }
    const _: () = {
        assert!(size_of::<Push>() == 80);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, products) == 8);
        assert!(std::mem::offset_of!(Push, weights) == 16);
        assert!(std::mem::offset_of!(Push, y) == 24);
        assert!(std::mem::offset_of!(Push, shared_y) == 32);
        assert!(std::mem::offset_of!(Push, shared_logit) == 40);
        assert!(std::mem::offset_of!(Push, width) == 48);
        assert!(std::mem::offset_of!(Push, slots) == 52);
        assert!(std::mem::offset_of!(Push, products_stride) == 56);
        assert!(std::mem::offset_of!(Push, weights_stride) == 60);
        assert!(std::mem::offset_of!(Push, y_stride) == 64);
        assert!(std::mem::offset_of!(Push, shared_y_stride) == 68);
        assert!(std::mem::offset_of!(Push, shared_logit_stride) == 72);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `SHARED`.
        pub shared: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 3] {
            [(0, self.workgroup), (1, self.subgroup), (2, self.shared)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef =
        KernelDef { name: "join", spirv: include_bytes!("../spv/join.spv"), push_bytes: size_of::<Push>() as u32 };
}

/// Begins the drafts of a block for multi-token prediction, behind a step of one lane that has ended: the last of its rows that was accepted becomes the first row
/// of the drafting state. One workgroup.
///
/// The block takes a row with the token behind it, so the drafting lane stands a position behind the sequence, and its array of tokens begins with the second
/// token of the sequence. It drafts greedily, up to the end of the context.
pub mod last_accepted {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// StepState of the step that has ended
        pub state: u64,
        /// StepState whose own lane drafts
        pub draft: u64,
        /// \[context + MOST_RUN\] u32: where drafts go instead of to the tokens of the sequence, at the same positions; 0: to these
        pub tokens: u64,
        /// \[width\] f32, of the rows of the step
        pub x: u64,
        /// \[width\] f32, of the drafting state's row
        pub y: u64,
        /// `width` in GLSL.
        pub width: u32,
        /// bytes from one row of the step to the next
        pub x_stride: u32,
    }
    const _: () = {
        assert!(size_of::<Push>() == 48);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, draft) == 8);
        assert!(std::mem::offset_of!(Push, tokens) == 16);
        assert!(std::mem::offset_of!(Push, x) == 24);
        assert!(std::mem::offset_of!(Push, y) == 32);
        assert!(std::mem::offset_of!(Push, width) == 40);
        assert!(std::mem::offset_of!(Push, x_stride) == 44);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 2] {
            [(0, self.workgroup), (1, self.subgroup)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "last_accepted",
        spirv: include_bytes!("../spv/last_accepted.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// Makes the last rows of the prompts that end in a step its only ones, so that the step goes on behind them as a step does that takes a token of each lane
/// further: they become the first of the table and of the residual stream, in the order of their lanes, and each of these lanes moves on to its last token. Other
/// lanes stay as they are: their rows are counted, and nothing is sampled behind them. One workgroup.
pub mod last_rows {
    use super::KernelDef;

    /// `NO_ROW` in GLSL.
    pub const NO_ROW: u32 = 0xffffffff;
    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[width\] f32: the residual stream
        pub x: u64,
        /// `width` in GLSL.
        pub width: u32,
        /// bytes from one row of the step to the next
        pub x_stride: u32,
    }
    const _: () = {
        assert!(size_of::<Push>() == 24);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, x) == 8);
        assert!(std::mem::offset_of!(Push, width) == 16);
        assert!(std::mem::offset_of!(Push, x_stride) == 20);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 2] {
            [(0, self.workgroup), (1, self.subgroup)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "last_rows",
        spirv: include_bytes!("../spv/last_rows.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// The first kernel of a step: lists the lanes that the host wants in it, and their rows, and enters the pages that lanes get with it. One workgroup.
///
/// A lane that has ended has no rows, and one that the host has cancelled ends here. A lane whose prompt goes on has as many rows as the host wants of it and its
/// prompt has tokens left, and every other lane has one. The rows of a lane stand together, and those of the lanes in the order of the list.
pub mod list {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// WantedLanes of this ring slot, the lanes, and the pages that they get
        pub wanted: u64,
        /// \[lanes\] u32, host-visible: for each lane the sequence that the host wants stopped
        pub cancelled: u64,
        /// Lane: once its sequence has ended, no lane has rows; 0: none
        pub leader: u64,
    }
    const _: () = {
        assert!(size_of::<Push>() == 32);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, wanted) == 8);
        assert!(std::mem::offset_of!(Push, cancelled) == 16);
        assert!(std::mem::offset_of!(Push, leader) == 24);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 2] {
            [(0, self.workgroup), (1, self.subgroup)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef =
        KernelDef { name: "list", spirv: include_bytes!("../spv/list.spv"), push_bytes: size_of::<Push>() as u32 };
}

/// The first half of log-probabilities: the highest logits and the softmax mass of each share of the vocabulary, one workgroup a share.
/// It reads the logits as the model gave them, and runs beside `adjust`.
pub mod logprob_shares {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[vocabulary\] f32
        pub logits: u64,
        /// the highest of each share; scores are not written
        pub items: u64,
        /// \[shares\] Share
        pub shares: u64,
        /// \[shares\] u64: softmax masses, each relative to the share's highest logit
        pub masses: u64,
        /// `vocabulary` in GLSL.
        pub vocabulary: u32,
        /// bytes from one row of the step to the next, as the strides below
        pub logits_stride: u32,
        /// `items_stride` in GLSL.
        pub items_stride: u32,
        /// `shares_stride` in GLSL.
        pub shares_stride: u32,
        /// `masses_stride` in GLSL.
        pub masses_stride: u32,
        /// Fills the struct to its alignment.
        pub padding: [u32; 1],
    }
    const _: () = {
        assert!(size_of::<Push>() == 64);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, logits) == 8);
        assert!(std::mem::offset_of!(Push, items) == 16);
        assert!(std::mem::offset_of!(Push, shares) == 24);
        assert!(std::mem::offset_of!(Push, masses) == 32);
        assert!(std::mem::offset_of!(Push, vocabulary) == 40);
        assert!(std::mem::offset_of!(Push, logits_stride) == 44);
        assert!(std::mem::offset_of!(Push, items_stride) == 48);
        assert!(std::mem::offset_of!(Push, shares_stride) == 52);
        assert!(std::mem::offset_of!(Push, masses_stride) == 56);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 2] {
            [(0, self.workgroup), (1, self.subgroup)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "logprob_shares",
        spirv: include_bytes!("../spv/logprob_shares.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// The second half of log-probabilities: the highest logits of the whole vocabulary, in order, and its softmax mass. One workgroup, beside `choose`.
pub mod logprobs {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// what `logprob_shares` listed
        pub items: u64,
        /// \[shares\] Share
        pub shares: u64,
        /// \[shares\] u64
        pub masses: u64,
        /// \[lanes\] LogprobReport of this ring slot
        pub reports: u64,
        /// `vocabulary` in GLSL.
        pub vocabulary: u32,
        /// bytes from one row of the step to the next, as the strides below
        pub items_stride: u32,
        /// `shares_stride` in GLSL.
        pub shares_stride: u32,
        /// `masses_stride` in GLSL.
        pub masses_stride: u32,
        /// bytes from one lane's report to the next one's
        pub report_stride: u32,
        /// Fills the struct to its alignment.
        pub padding: [u32; 1],
    }
    const _: () = {
        assert!(size_of::<Push>() == 64);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, items) == 8);
        assert!(std::mem::offset_of!(Push, shares) == 16);
        assert!(std::mem::offset_of!(Push, masses) == 24);
        assert!(std::mem::offset_of!(Push, reports) == 32);
        assert!(std::mem::offset_of!(Push, vocabulary) == 40);
        assert!(std::mem::offset_of!(Push, items_stride) == 44);
        assert!(std::mem::offset_of!(Push, shares_stride) == 48);
        assert!(std::mem::offset_of!(Push, masses_stride) == 52);
        assert!(std::mem::offset_of!(Push, report_stride) == 56);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `AT_A_TIME`.
        pub at_a_time: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 3] {
            [(0, self.workgroup), (1, self.subgroup), (2, self.at_a_time)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "logprobs",
        spirv: include_bytes!("../spv/logprobs.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// Drafts without a model: what followed when the last tokens of the sequence stood in it before.
///
/// Of all earlier places whose last tokens are the sequence's last ones, MIN_NGRAM of them or more, one with the most in common is taken, up to
/// MAX_NGRAM, and of several the latest. The tokens that stand behind it are drafts: further rows of the step. One workgroup.
/// (Saxena: Prompt Lookup Decoding, 2023.)
pub mod lookup {
    use super::KernelDef;

    /// `AHEAD` in GLSL.
    pub const AHEAD: u32 = 8;
    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// tokens in common that a place must have, at least 1
        pub min_ngram: u32,
        /// beyond which it makes no difference
        pub max_ngram: u32,
        /// at most so many, less than MOST_RUN
        pub drafts: u32,
        /// Fills the struct to its alignment.
        pub padding: [u32; 1],
    }
    const _: () = {
        assert!(size_of::<Push>() == 24);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, min_ngram) == 8);
        assert!(std::mem::offset_of!(Push, max_ngram) == 12);
        assert!(std::mem::offset_of!(Push, drafts) == 16);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 2] {
            [(0, self.workgroup), (1, self.subgroup)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef =
        KernelDef { name: "lookup", spirv: include_bytes!("../spv/lookup.spv"), push_bytes: size_of::<Push>() as u32 };
}

/// Up to three matrices times the vectors of many rows of the step: y = W x or y + W x, plus a bias. Or the matrices of experts, times the vectors
/// of the pairs that `route` has sorted: y = W\[expert\] x, plus a bias.
///
/// A workgroup has some rows of one matrix, and a tile of vectors.
pub mod mat_mul {
    use super::KernelDef;

    /// `SPLITS` in GLSL.
    pub const SPLITS: u32 = 1;
    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[slots, COLUMNS\] rounded
        pub x: u64,
        /// \[experts, rows, COLUMNS\] in FORMAT_0, rows in planes
        pub weights_0: u64,
        /// `weights_1` in GLSL.
        pub weights_1: u64,
        /// `weights_2` in GLSL.
        pub weights_2: u64,
        /// \[rows\] f32, with experts \[experts, rows\], or 0 for none
        pub bias_0: u64,
        /// `bias_1` in GLSL.
        pub bias_1: u64,
        /// `bias_2` in GLSL.
        pub bias_2: u64,
        /// \[slots, rows\] f32
        pub y_0: u64,
        /// of a second matrix; with experts, which have one, \[rows, slots\] u32
        pub y_1_or_pairs: u64,
        /// of a third matrix; with experts the list of tiles
        pub y_2_or_tiles: u64,
        /// see `begin_values`; 0 where SPLITS is 1
        pub group_values: u64,
        /// `rows_0` in GLSL.
        pub rows_0: u32,
        /// `rows_1` in GLSL.
        pub rows_1: u32,
        /// `rows_2` in GLSL.
        pub rows_2: u32,
        /// 65,536 times the slots of each row, which are 0 without experts, plus the rows of the step that the launch is for
        pub slots_and_room: u32,
        /// bytes from one row of the step to the next, as the strides below
        pub x_stride: u32,
        /// `y_stride_0` in GLSL.
        pub y_stride_0: u32,
        /// `y_stride_1` in GLSL.
        pub y_stride_1: u32,
        /// `y_stride_2` in GLSL.
        pub y_stride_2: u32,
    }
    const _: () = {
        assert!(size_of::<Push>() == 128);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, x) == 8);
        assert!(std::mem::offset_of!(Push, weights_0) == 16);
        assert!(std::mem::offset_of!(Push, weights_1) == 24);
        assert!(std::mem::offset_of!(Push, weights_2) == 32);
        assert!(std::mem::offset_of!(Push, bias_0) == 40);
        assert!(std::mem::offset_of!(Push, bias_1) == 48);
        assert!(std::mem::offset_of!(Push, bias_2) == 56);
        assert!(std::mem::offset_of!(Push, y_0) == 64);
        assert!(std::mem::offset_of!(Push, y_1_or_pairs) == 72);
        assert!(std::mem::offset_of!(Push, y_2_or_tiles) == 80);
        assert!(std::mem::offset_of!(Push, group_values) == 88);
        assert!(std::mem::offset_of!(Push, rows_0) == 96);
        assert!(std::mem::offset_of!(Push, rows_1) == 100);
        assert!(std::mem::offset_of!(Push, rows_2) == 104);
        assert!(std::mem::offset_of!(Push, slots_and_room) == 108);
        assert!(std::mem::offset_of!(Push, x_stride) == 112);
        assert!(std::mem::offset_of!(Push, y_stride_0) == 116);
        assert!(std::mem::offset_of!(Push, y_stride_1) == 120);
        assert!(std::mem::offset_of!(Push, y_stride_2) == 124);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `COLUMNS`.
        pub columns: u32,
        /// Constant 3, `LISTED`.
        pub listed: u32,
        /// Constant 4, `TILE`.
        pub tile: u32,
        /// Constant 5, `QUAD_ROWS`.
        pub quad_rows: u32,
        /// Constant 6, `ACCUMULATE`.
        pub accumulate: u32,
        /// Constant 7, `FORMAT_0`.
        pub format_0: u32,
        /// Constant 8, `FORMAT_1`.
        pub format_1: u32,
        /// Constant 9, `FORMAT_2`.
        pub format_2: u32,
        /// Constant 10, `BIAS_BY_EXPERT`.
        pub bias_by_expert: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 11] {
            [
                (0, self.workgroup),
                (1, self.subgroup),
                (2, self.columns),
                (3, self.listed),
                (4, self.tile),
                (5, self.quad_rows),
                (6, self.accumulate),
                (7, self.format_0),
                (8, self.format_1),
                (9, self.format_2),
                (10, self.bias_by_expert),
            ]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "mat_mul",
        spirv: include_bytes!("../spv/mat_mul.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
    /// The kernel that takes the vectors of a tile one after the other.
    pub static IN_TURN: KernelDef = KernelDef {
        name: "mat_mul in turn",
        spirv: include_bytes!("../spv/mat_mul.in_turn.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// The form of `mat_mul` for integer matrix units. Its numbers are those of the other form.
pub mod mat_mul_units {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[slots, COLUMNS\] rounded
        pub x: u64,
        /// \[experts, rows, COLUMNS\] in FORMAT_0, rows in planes
        pub weights_0: u64,
        /// `weights_1` in GLSL.
        pub weights_1: u64,
        /// `weights_2` in GLSL.
        pub weights_2: u64,
        /// \[rows\] f32, with experts \[experts, rows\], or 0 for none
        pub bias_0: u64,
        /// `bias_1` in GLSL.
        pub bias_1: u64,
        /// `bias_2` in GLSL.
        pub bias_2: u64,
        /// \[slots, rows\] f32
        pub y_0: u64,
        /// of a second matrix; with experts, which have one, \[rows, slots\] u32
        pub y_1_or_pairs: u64,
        /// of a third matrix; with experts the list of tiles
        pub y_2_or_tiles: u64,
        /// see `begin_values`; 0 where SPLITS is 1
        pub group_values: u64,
        /// `rows_0` in GLSL.
        pub rows_0: u32,
        /// `rows_1` in GLSL.
        pub rows_1: u32,
        /// `rows_2` in GLSL.
        pub rows_2: u32,
        /// 65,536 times the slots of each row, which are 0 without experts, plus the rows of the step that the launch is for
        pub slots_and_room: u32,
        /// bytes from one row of the step to the next, as the strides below
        pub x_stride: u32,
        /// `y_stride_0` in GLSL.
        pub y_stride_0: u32,
        /// `y_stride_1` in GLSL.
        pub y_stride_1: u32,
        /// `y_stride_2` in GLSL.
        pub y_stride_2: u32,
    }
    const _: () = {
        assert!(size_of::<Push>() == 128);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, x) == 8);
        assert!(std::mem::offset_of!(Push, weights_0) == 16);
        assert!(std::mem::offset_of!(Push, weights_1) == 24);
        assert!(std::mem::offset_of!(Push, weights_2) == 32);
        assert!(std::mem::offset_of!(Push, bias_0) == 40);
        assert!(std::mem::offset_of!(Push, bias_1) == 48);
        assert!(std::mem::offset_of!(Push, bias_2) == 56);
        assert!(std::mem::offset_of!(Push, y_0) == 64);
        assert!(std::mem::offset_of!(Push, y_1_or_pairs) == 72);
        assert!(std::mem::offset_of!(Push, y_2_or_tiles) == 80);
        assert!(std::mem::offset_of!(Push, group_values) == 88);
        assert!(std::mem::offset_of!(Push, rows_0) == 96);
        assert!(std::mem::offset_of!(Push, rows_1) == 100);
        assert!(std::mem::offset_of!(Push, rows_2) == 104);
        assert!(std::mem::offset_of!(Push, slots_and_room) == 108);
        assert!(std::mem::offset_of!(Push, x_stride) == 112);
        assert!(std::mem::offset_of!(Push, y_stride_0) == 116);
        assert!(std::mem::offset_of!(Push, y_stride_1) == 120);
        assert!(std::mem::offset_of!(Push, y_stride_2) == 124);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `COLUMNS`.
        pub columns: u32,
        /// Constant 3, `LISTED`.
        pub listed: u32,
        /// Constant 4, `TILE`.
        pub tile: u32,
        /// Constant 5, `DEPTH`.
        pub depth: u32,
        /// Constant 6, `STAGE_RUNS`.
        pub stage_runs: u32,
        /// Constant 7, `ROW_SUBGROUPS`.
        pub row_subgroups: u32,
        /// Constant 8, `ROW_FRAGMENTS`.
        pub row_fragments: u32,
        /// Constant 9, `RAGGED`.
        pub ragged: u32,
        /// Constant 10, `GAPS`.
        pub gaps: u32,
        /// Constant 11, `PART_SCALES`.
        pub part_scales: u32,
        /// Constant 12, `MINIMUMS`.
        pub minimums: u32,
        /// Constant 13, `CHUNK_SUMS`.
        pub chunk_sums: u32,
        /// Constant 14, `ACCUMULATE`.
        pub accumulate: u32,
        /// Constant 15, `FORMAT_0`.
        pub format_0: u32,
        /// Constant 16, `FORMAT_1`.
        pub format_1: u32,
        /// Constant 17, `FORMAT_2`.
        pub format_2: u32,
        /// Constant 18, `BIAS_BY_EXPERT`.
        pub bias_by_expert: u32,
        /// Constant 19, `SPLITS`.
        pub splits: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 20] {
            [
                (0, self.workgroup),
                (1, self.subgroup),
                (2, self.columns),
                (3, self.listed),
                (4, self.tile),
                (5, self.depth),
                (6, self.stage_runs),
                (7, self.row_subgroups),
                (8, self.row_fragments),
                (9, self.ragged),
                (10, self.gaps),
                (11, self.part_scales),
                (12, self.minimums),
                (13, self.chunk_sums),
                (14, self.accumulate),
                (15, self.format_0),
                (16, self.format_1),
                (17, self.format_2),
                (18, self.bias_by_expert),
                (19, self.splits),
            ]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "mat_mul_units",
        spirv: include_bytes!("../spv/mat_mul_units.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
    /// The kernel with ordinary arithmetic in place of matrix units.
    pub static EMULATED: KernelDef = KernelDef {
        name: "mat_mul_units emulated",
        spirv: include_bytes!("../spv/mat_mul_units.emulated.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// Up to three matrices times a vector, for each row of the step: y = W x or y + W x, plus a bias. The vector may be normalised on the way (q, k and v
/// of a layer, the head). A lane of a subgroup computes ROWS rows of a matrix at a time, so that what it read of the vector serves all of them, and
/// VECTORS vectors, those of as many rows of the step, so that weights are read and unpacked once for all of them. The subgroups of a workgroup are
/// at the same matrix.
pub mod mat_vec {
    use super::KernelDef;

    /// `MOST_KEPT_GROUPS` in GLSL.
    pub const MOST_KEPT_GROUPS: u32 = 16;
    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[COLUMNS\]
        pub x: u64,
        /// \[COLUMNS\] f32, read where SOURCE is NORMALISED
        pub norm: u64,
        /// \[rows, COLUMNS\] in FORMAT_0, rows in planes
        pub weights_0: u64,
        /// `weights_1` in GLSL.
        pub weights_1: u64,
        /// `weights_2` in GLSL.
        pub weights_2: u64,
        /// \[rows\] f32, or 0 for none
        pub bias_0: u64,
        /// `bias_1` in GLSL.
        pub bias_1: u64,
        /// `bias_2` in GLSL.
        pub bias_2: u64,
        /// \[rows\] f32
        pub y_0: u64,
        /// `y_1` in GLSL.
        pub y_1: u64,
        /// `y_2` in GLSL.
        pub y_2: u64,
        /// `rows_0` in GLSL.
        pub rows_0: u32,
        /// `rows_1` in GLSL.
        pub rows_1: u32,
        /// `rows_2` in GLSL.
        pub rows_2: u32,
        /// that there are: rows of the step that have an x and a y
        pub vectors: u32,
        /// bytes from one row of the step to the next, as the strides below
        pub x_stride: u32,
        /// `y_stride_0` in GLSL.
        pub y_stride_0: u32,
        /// `y_stride_1` in GLSL.
        pub y_stride_1: u32,
        /// `y_stride_2` in GLSL.
        pub y_stride_2: u32,
    }
    const _: () = {
        assert!(size_of::<Push>() == 128);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, x) == 8);
        assert!(std::mem::offset_of!(Push, norm) == 16);
        assert!(std::mem::offset_of!(Push, weights_0) == 24);
        assert!(std::mem::offset_of!(Push, weights_1) == 32);
        assert!(std::mem::offset_of!(Push, weights_2) == 40);
        assert!(std::mem::offset_of!(Push, bias_0) == 48);
        assert!(std::mem::offset_of!(Push, bias_1) == 56);
        assert!(std::mem::offset_of!(Push, bias_2) == 64);
        assert!(std::mem::offset_of!(Push, y_0) == 72);
        assert!(std::mem::offset_of!(Push, y_1) == 80);
        assert!(std::mem::offset_of!(Push, y_2) == 88);
        assert!(std::mem::offset_of!(Push, rows_0) == 96);
        assert!(std::mem::offset_of!(Push, rows_1) == 100);
        assert!(std::mem::offset_of!(Push, rows_2) == 104);
        assert!(std::mem::offset_of!(Push, vectors) == 108);
        assert!(std::mem::offset_of!(Push, x_stride) == 112);
        assert!(std::mem::offset_of!(Push, y_stride_0) == 116);
        assert!(std::mem::offset_of!(Push, y_stride_1) == 120);
        assert!(std::mem::offset_of!(Push, y_stride_2) == 124);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `ACT`.
        pub act: u32,
        /// Constant 3, `COLUMNS`.
        pub columns: u32,
        /// Constant 4, `SOURCE`.
        pub source: u32,
        /// Constant 5, `ROWS`.
        pub rows: u32,
        /// Constant 6, `AHEAD`.
        pub ahead: u32,
        /// Constant 7, `ACCUMULATE`.
        pub accumulate: u32,
        /// Constant 8, `FORMAT_0`.
        pub format_0: u32,
        /// Constant 9, `FORMAT_1`.
        pub format_1: u32,
        /// Constant 10, `FORMAT_2`.
        pub format_2: u32,
        /// Constant 11, `VECTORS`.
        pub vectors: u32,
        /// Constant 12, `EPSILON`.
        pub epsilon: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 13] {
            [
                (0, self.workgroup),
                (1, self.subgroup),
                (2, self.act),
                (3, self.columns),
                (4, self.source),
                (5, self.rows),
                (6, self.ahead),
                (7, self.accumulate),
                (8, self.format_0),
                (9, self.format_1),
                (10, self.format_2),
                (11, self.vectors),
                (12, self.epsilon),
            ]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "mat_vec",
        spirv: include_bytes!("../spv/mat_vec.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// The input of a block for multi-token prediction: the embedding of the token behind each row, and the row's hidden vector, which is the residual stream
/// as a head takes it, both normalised. One workgroup normalises the embedding where it is, another puts the hidden vector behind it.
pub mod mtp_norms {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[2, COLUMNS\] f32: the embedding, and room for the hidden vector
        pub x: u64,
        /// \[COLUMNS\] f32
        pub residual: u64,
        /// \[COLUMNS\] f32
        pub embedding_norm: u64,
        /// \[COLUMNS\] f32: what a head normalises the residual stream with
        pub head_norm: u64,
        /// \[COLUMNS\] f32
        pub hidden_norm: u64,
        /// bytes from one row of the step to the next, as the stride below
        pub x_stride: u32,
        /// `residual_stride` in GLSL.
        pub residual_stride: u32,
    }
    const _: () = {
        assert!(size_of::<Push>() == 56);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, x) == 8);
        assert!(std::mem::offset_of!(Push, residual) == 16);
        assert!(std::mem::offset_of!(Push, embedding_norm) == 24);
        assert!(std::mem::offset_of!(Push, head_norm) == 32);
        assert!(std::mem::offset_of!(Push, hidden_norm) == 40);
        assert!(std::mem::offset_of!(Push, x_stride) == 48);
        assert!(std::mem::offset_of!(Push, residual_stride) == 52);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `COLUMNS`.
        pub columns: u32,
        /// Constant 3, `EPSILON`.
        pub epsilon: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 4] {
            [(0, self.workgroup), (1, self.subgroup), (2, self.columns), (3, self.epsilon)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "mtp_norms",
        spirv: include_bytes!("../spv/mtp_norms.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// Hands drafts over that were made with a state of their own: they become rows of the step of the model that they are for, as many as there are and as it has
/// room for.
///
/// What a draft model or a block for multi-token prediction has sampled stands in the array of tokens of the sequence. Drafts of another sequence are none. One subgroup.
pub mod propose {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// StepState of the sequence that the drafts are for
        pub state: u64,
        /// StepState whose own lane has moved on over the drafts
        pub draft: u64,
        /// at most so many, less than MOST_RUN
        pub drafts: u32,
        /// positions by which that lane stands behind the last draft
        pub behind: u32,
    }
    const _: () = {
        assert!(size_of::<Push>() == 24);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, draft) == 8);
        assert!(std::mem::offset_of!(Push, drafts) == 16);
        assert!(std::mem::offset_of!(Push, behind) == 20);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 2] {
            [(0, self.workgroup), (1, self.subgroup)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "propose",
        spirv: include_bytes!("../spv/propose.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// Reads memory and does nothing else: what a device reaches with it is what the other kernels are held against.
/// The workgroups take tiles in turn. A thread has all its loads of a tile in flight, 16 bytes each, beside those of its neighbours.
/// What is read is combined by exclusive or: every word counts, in any order.
pub mod read {
    use super::KernelDef;

    /// `LOADS` in GLSL.
    pub const LOADS: u32 = 8;
    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[tiles, LOADS, workgroup size, 4\] u32
        pub x: u64,
        /// \[workgroups\] u32
        pub y: u64,
        /// `tiles` in GLSL.
        pub tiles: u32,
        /// Fills the struct to its alignment.
        pub padding: [u32; 1],
    }
    const _: () = {
        assert!(size_of::<Push>() == 32);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, x) == 8);
        assert!(std::mem::offset_of!(Push, y) == 16);
        assert!(std::mem::offset_of!(Push, tiles) == 24);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 2] {
            [(0, self.workgroup), (1, self.subgroup)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef =
        KernelDef { name: "read", spirv: include_bytes!("../spv/read.spv"), push_bytes: size_of::<Push>() as u32 };
}

/// Rounds f32 activations for matrix products: each is rounded once here, instead of by each workgroup that needs it. They may be normalised on the
/// way. A subgroup rounds a group of 256 elements.
pub mod round {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[vectors, COLUMNS\] f32
        pub x: u64,
        /// \[COLUMNS\] f32, read where SOURCE is NORMALISED: there is one vector then
        pub norm: u64,
        /// \[vectors, COLUMNS\] rounded
        pub y: u64,
        /// `vectors` in GLSL.
        pub vectors: u32,
        /// bytes from one row of the step to the next, as y_stride
        pub x_stride: u32,
        /// `y_stride` in GLSL.
        pub y_stride: u32,
        /// Fills the struct to its alignment.
        pub padding: [u32; 1],
    }
    const _: () = {
        assert!(size_of::<Push>() == 48);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, x) == 8);
        assert!(std::mem::offset_of!(Push, norm) == 16);
        assert!(std::mem::offset_of!(Push, y) == 24);
        assert!(std::mem::offset_of!(Push, vectors) == 32);
        assert!(std::mem::offset_of!(Push, x_stride) == 36);
        assert!(std::mem::offset_of!(Push, y_stride) == 40);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `COLUMNS`.
        pub columns: u32,
        /// Constant 3, `SOURCE`.
        pub source: u32,
        /// Constant 4, `EPSILON`.
        pub epsilon: u32,
        /// Constant 5, `ORDERED`.
        pub ordered: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 6] {
            [
                (0, self.workgroup),
                (1, self.subgroup),
                (2, self.columns),
                (3, self.source),
                (4, self.epsilon),
                (5, self.ordered),
            ]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef =
        KernelDef { name: "round", spirv: include_bytes!("../spv/round.spv"), push_bytes: size_of::<Push>() as u32 };
}

/// Chooses the experts of each row of a step of many rows, and sorts the pairs of a row and one of its slots by expert, so that the products that
/// follow read an expert's weights once for all rows that have chosen it. A workgroup chooses for a row and lists its pairs; the last to finish cuts the lists
/// into tiles, and writes how many workgroups the products have for them.
pub mod route {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[EXPERTS\] f32, the router's
        pub logits: u64,
        /// \[slots\] u32
        pub ids: u64,
        /// \[slots\] f32
        pub weights: u64,
        /// \[EXPERTS, rows\] u32: the pairs of each expert, row * slots + slot, in any order
        pub pairs: u64,
        /// \[rows, slots\] Tile, of which the grids say how many are valid
        pub tiles: u64,
        /// the Grids of the products
        pub grids: u64,
        /// \[1 + EXPERTS\] u32, all 0 before and afterwards: of workgroups that have finished, then of the pairs of each expert
        pub counters: u64,
        /// chosen experts, at most MAX_USED
        pub slots: u32,
        /// bytes from one row of the step to the next, as the strides below
        pub logits_stride: u32,
        /// `ids_stride` in GLSL.
        pub ids_stride: u32,
        /// `weights_stride` in GLSL.
        pub weights_stride: u32,
        /// workgroups of `gate_up_mul` in x, for a part of a tile
        pub gate_up_x: u32,
        /// workgroups of `gate_up_mul` in y, for a part of a tile
        pub gate_up_y: u32,
        /// parts that `gate_up_mul` cuts a tile into
        pub gate_up_parts: u32,
        /// workgroups of `mat_mul` in x, for a part of a tile
        pub down_x: u32,
        /// workgroups of `mat_mul` in y, for a part of a tile
        pub down_y: u32,
        /// parts that `mat_mul` cuts a tile into
        pub down_parts: u32,
    }
    const _: () = {
        assert!(size_of::<Push>() == 104);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, logits) == 8);
        assert!(std::mem::offset_of!(Push, ids) == 16);
        assert!(std::mem::offset_of!(Push, weights) == 24);
        assert!(std::mem::offset_of!(Push, pairs) == 32);
        assert!(std::mem::offset_of!(Push, tiles) == 40);
        assert!(std::mem::offset_of!(Push, grids) == 48);
        assert!(std::mem::offset_of!(Push, counters) == 56);
        assert!(std::mem::offset_of!(Push, slots) == 64);
        assert!(std::mem::offset_of!(Push, logits_stride) == 68);
        assert!(std::mem::offset_of!(Push, ids_stride) == 72);
        assert!(std::mem::offset_of!(Push, weights_stride) == 76);
        assert!(std::mem::offset_of!(Push, gate_up_x) == 80);
        assert!(std::mem::offset_of!(Push, gate_up_y) == 84);
        assert!(std::mem::offset_of!(Push, gate_up_parts) == 88);
        assert!(std::mem::offset_of!(Push, down_x) == 92);
        assert!(std::mem::offset_of!(Push, down_y) == 96);
        assert!(std::mem::offset_of!(Push, down_parts) == 100);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `EXPERTS`.
        pub experts: u32,
        /// Constant 3, `WEIGHTING`.
        pub weighting: u32,
        /// Constant 4, `TILE`.
        pub tile: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 5] {
            [(0, self.workgroup), (1, self.subgroup), (2, self.experts), (3, self.weighting), (4, self.tile)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef =
        KernelDef { name: "route", spirv: include_bytes!("../spv/route.spv"), push_bytes: size_of::<Push>() as u32 };
}

/// The router of an expert layer: normalises the residual stream and multiplies it with the router's matrix.
///
/// A workgroup computes one logit, in f32 whatever the form of other activations, because a rounded logit could choose another expert. On
/// the way the normalised vector is stored for the experts: rounded where OUT is ACT_Q14.
pub mod router {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[COLUMNS\] f32
        pub x: u64,
        /// \[COLUMNS\] f32
        pub norm: u64,
        /// \[experts, COLUMNS\] in FORMAT, rows in planes
        pub matrix: u64,
        /// \[experts\] f32, read where BIAS is 1
        pub bias: u64,
        /// \[COLUMNS\] f32, or rounded
        pub y: u64,
        /// \[experts\] f32
        pub logits: u64,
        /// `epsilon` in GLSL.
        pub epsilon: f32,
        /// bytes from one row of the step to the next, as the strides below
        pub x_stride: u32,
        /// `y_stride` in GLSL.
        pub y_stride: u32,
        /// `logits_stride` in GLSL.
        pub logits_stride: u32,
    }
    const _: () = {
        assert!(size_of::<Push>() == 72);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, x) == 8);
        assert!(std::mem::offset_of!(Push, norm) == 16);
        assert!(std::mem::offset_of!(Push, matrix) == 24);
        assert!(std::mem::offset_of!(Push, bias) == 32);
        assert!(std::mem::offset_of!(Push, y) == 40);
        assert!(std::mem::offset_of!(Push, logits) == 48);
        assert!(std::mem::offset_of!(Push, epsilon) == 56);
        assert!(std::mem::offset_of!(Push, x_stride) == 60);
        assert!(std::mem::offset_of!(Push, y_stride) == 64);
        assert!(std::mem::offset_of!(Push, logits_stride) == 68);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `COLUMNS`.
        pub columns: u32,
        /// Constant 3, `OUT`.
        pub out: u32,
        /// Constant 4, `FORMAT`.
        pub format: u32,
        /// Constant 5, `ORDERED`.
        pub ordered: u32,
        /// Constant 6, `BIAS`.
        pub bias: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 7] {
            [
                (0, self.workgroup),
                (1, self.subgroup),
                (2, self.columns),
                (3, self.out),
                (4, self.format),
                (5, self.ordered),
                (6, self.bias),
            ]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef =
        KernelDef { name: "router", spirv: include_bytes!("../spv/router.spv"), push_bytes: size_of::<Push>() as u32 };
}

/// The router of an expert layer for many rows of a step, and a matrix of floats: its logits, with the bits of `router`. The vectors for the experts are
/// rounded by `round`.
///
/// A workgroup computes LOGITS logits of ROWS rows, and each of its subgroups takes groups of their columns. A subgroup keeps what a group has of the weights of
/// all LOGITS logits, and multiplies them by TURN_ROWS rows at a time: that makes as many sums as it has lanes. Lanes then exchange what they have of these, so
/// that in the end each has one of them.
pub mod router_mul {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[COLUMNS\] f32
        pub x: u64,
        /// \[COLUMNS\] f32
        pub norm: u64,
        /// \[experts, COLUMNS\] in FORMAT, rows in planes
        pub matrix: u64,
        /// \[experts\] f32, read where BIAS is 1
        pub bias: u64,
        /// \[experts\] f32
        pub logits: u64,
        /// `epsilon` in GLSL.
        pub epsilon: f32,
        /// that there are operands for
        pub rows: u32,
        /// `experts` in GLSL.
        pub experts: u32,
        /// bytes from one row of the step to the next, as logits_stride
        pub x_stride: u32,
        /// `logits_stride` in GLSL.
        pub logits_stride: u32,
        /// Fills the struct to its alignment.
        pub padding: [u32; 1],
    }
    const _: () = {
        assert!(size_of::<Push>() == 72);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, x) == 8);
        assert!(std::mem::offset_of!(Push, norm) == 16);
        assert!(std::mem::offset_of!(Push, matrix) == 24);
        assert!(std::mem::offset_of!(Push, bias) == 32);
        assert!(std::mem::offset_of!(Push, logits) == 40);
        assert!(std::mem::offset_of!(Push, epsilon) == 48);
        assert!(std::mem::offset_of!(Push, rows) == 52);
        assert!(std::mem::offset_of!(Push, experts) == 56);
        assert!(std::mem::offset_of!(Push, x_stride) == 60);
        assert!(std::mem::offset_of!(Push, logits_stride) == 64);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `COLUMNS`.
        pub columns: u32,
        /// Constant 3, `FORMAT`.
        pub format: u32,
        /// Constant 4, `ROWS`.
        pub rows: u32,
        /// Constant 5, `LOGITS`.
        pub logits: u32,
        /// Constant 6, `BIAS`.
        pub bias: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 7] {
            [
                (0, self.workgroup),
                (1, self.subgroup),
                (2, self.columns),
                (3, self.format),
                (4, self.rows),
                (5, self.logits),
                (6, self.bias),
            ]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "router_mul",
        spirv: include_bytes!("../spv/router_mul.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// First half of sampling: each workgroup finds the best of its share of the vocabulary, the lower id where two are equal, for each row of the
/// step.
/// Greedy compares logits. Otherwise a Gumbel variate is added to logit / temperature: the maximum of these is distributed as the
/// softmax (Gumbel, 1954; Maddison et al., A* Sampling, 2014). The variate depends on seed, position and id alone.
/// The score's arithmetic is exact, so that the host draws the same token from the same logits.
pub mod sample {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[vocabulary\] f32
        pub logits: u64,
        /// \[workgroups\] Candidate
        pub candidates: u64,
        /// `vocabulary` in GLSL.
        pub vocabulary: u32,
        /// ids a workgroup looks at, a multiple of 4
        pub share: u32,
        /// bytes from one row of the step to the next, as candidates_stride
        pub logits_stride: u32,
        /// `candidates_stride` in GLSL.
        pub candidates_stride: u32,
    }
    const _: () = {
        assert!(size_of::<Push>() == 40);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, logits) == 8);
        assert!(std::mem::offset_of!(Push, candidates) == 16);
        assert!(std::mem::offset_of!(Push, vocabulary) == 24);
        assert!(std::mem::offset_of!(Push, share) == 28);
        assert!(std::mem::offset_of!(Push, logits_stride) == 32);
        assert!(std::mem::offset_of!(Push, candidates_stride) == 36);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 2] {
            [(0, self.workgroup), (1, self.subgroup)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef =
        KernelDef { name: "sample", spirv: include_bytes!("../spv/sample.spv"), push_bytes: size_of::<Push>() as u32 };
}

/// Every kernel, by name.
pub static KERNELS: [&KernelDef; 38] = [
    &adjust::KERNEL,
    &advance::KERNEL,
    &append::KERNEL,
    &attention::KERNEL,
    &attention_rows::KERNEL,
    &attention_rows_units::KERNEL,
    &attention_units::KERNEL,
    &cancel::KERNEL,
    &check_bytes_units::KERNEL,
    &check_halves_units::KERNEL,
    &choose::KERNEL,
    &delta_conv::KERNEL,
    &delta_net::KERNEL,
    &dry::KERNEL,
    &expert_down::KERNEL,
    &gate_up::KERNEL,
    &gate_up_mul::KERNEL,
    &gate_up_mul_units::KERNEL,
    &gather::KERNEL,
    &head_gate::KERNEL,
    &join::KERNEL,
    &last_accepted::KERNEL,
    &last_rows::KERNEL,
    &list::KERNEL,
    &logprob_shares::KERNEL,
    &logprobs::KERNEL,
    &lookup::KERNEL,
    &mat_mul::KERNEL,
    &mat_mul_units::KERNEL,
    &mat_vec::KERNEL,
    &mtp_norms::KERNEL,
    &propose::KERNEL,
    &read::KERNEL,
    &round::KERNEL,
    &route::KERNEL,
    &router::KERNEL,
    &router_mul::KERNEL,
    &sample::KERNEL,
];
