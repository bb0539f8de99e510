//! What shared memory and registers kernels of 128 rows by 64 tokens have, and beside what they run.

use super::*;

fn double(beside: &[Tile], head_dim: u32) -> KernelSpec {
    KernelSpec::new(&[&[Tile::DOUBLE], beside].concat(), head_dim, Dtype::F16, true, false)
}

/// Two CTAs share an SM: four stages of 16 KiB and 32 KiB of Q each at head dimension 128, and 65,536 registers.
#[test]
fn two_ctas_of_128_rows_by_64_tokens_share_an_sm() {
    for head_dim in [64, 128] {
        let spec = double(&[Tile::MASKED, Tile::LEAN], head_dim);
        assert!(spec.shared_bytes(&Arch::SM_90A).unwrap() <= (Arch::SM_90A.shared_per_sm / 2) - 1024);
        assert_eq!(2 * spec.threads(&Arch::SM_90A) * DOUBLE_REGISTERS, 65_536);
    }
    assert_eq!(double(&[], 128).stages_on(&Arch::SM_90A).unwrap(), 4);
}

#[test]
fn a_tile_of_128_rows_by_64_tokens_runs_where_its_registers_do() {
    assert!(double(&[Tile::LEAN], 128).check().is_ok());
    let refused = [
        double(&[Tile { m: 32, n: 64 }], 128),
        double(&[Tile { m: 16, n: 64 }], 128),
        double(&[Tile { m: 16, n: 16 }], 128),
        double(&[], 256),
        KernelSpec { copies: Copies::Tokens, ..double(&[], 128) },
        KernelSpec { sight: Sight::Masked, ..double(&[Tile::MASKED], 128) },
    ];
    for spec in refused {
        let error = spec.check().unwrap_err().to_string();
        assert!(error.contains("128 rows by 64 tokens"), "{error}");
    }
    assert!(double(&[], 128).options(&Arch::SM_80, 2).unwrap_err().to_string().contains("on sm_80"));
}
