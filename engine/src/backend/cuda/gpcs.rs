//! The GPC of each SM, which no call of the driver tells: all CTAs of a cluster run in one GPC, so SMs that were seen in
//! one cluster are of one GPC, and so are those that a chain of such clusters joins.
//!
//! Which SMs a GPC has is another matter on each GPU of a model, since each has other SMs that its maker has switched off.

use kernels::{Compiler, Gpu, KernelError, Places, Stream};

/// CTAs of a cluster: small ones join SMs in ever other ways, large ones join many. The last is not made everywhere.
const SIZES: [u32; 4] = [2, 4, 8, 16];
/// Rounds over all sizes that have to join nothing new until the GPCs are taken to be found, and those after which they
/// are taken to be unknown.
const QUIET: u32 = 4;
const MOST: u32 = 64;

/// SMs that were seen together.
struct Joined(Vec<usize>);

impl Joined {
    fn new(sms: usize) -> Self {
        Self((0..sms).collect())
    }

    fn root(&self, mut sm: usize) -> usize {
        while self.0[sm] != sm {
            sm = self.0[sm];
        }
        sm
    }

    /// Joins the SMs of a cluster; whether they were not all joined before. The lowest SM stands for all.
    fn join(&mut self, cluster: &[u32]) -> bool {
        let mut is_new = false;
        for pair in cluster.windows(2) {
            let known = |sm: u32| Some(sm as usize).filter(|sm| *sm < self.0.len()).map(|sm| self.root(sm));
            let (Some(a), Some(b)) = (known(pair[0]), known(pair[1])) else { continue };
            if a != b {
                self.0[a.max(b)] = a.min(b);
                is_new = true;
            }
        }
        is_new
    }

    /// The GPC of each SM, numbered by their lowest SMs; empty where one SM was never seen with another.
    fn gpcs(&self) -> Vec<u8> {
        let roots: Vec<usize> = (0..self.0.len()).map(|sm| self.root(sm)).collect();
        let mut firsts: Vec<usize> = roots.clone();
        firsts.sort_unstable();
        firsts.dedup();
        let alone = |first: &usize| roots.iter().filter(|root| *root == first).count() < 2;
        if firsts.iter().any(alone) {
            return Vec::new();
        }
        let number = |root: &usize| firsts.binary_search(root).ok().and_then(|at| u8::try_from(at).ok());
        roots.iter().map(number).collect::<Option<_>>().unwrap_or_default()
    }
}

/// The GPC of each SM; empty where the GPU makes no clusters, or they do not tell it.
///
/// # Errors
/// Those of a GPU that is lost, or has no memory left.
pub(super) fn find(gpu: &Gpu, compiler: &Compiler, stream: &Stream) -> Result<Vec<u8>, KernelError> {
    let places = match Places::new(gpu, compiler) {
        Ok(places) => places,
        Err(KernelError::Unsupported(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut joined = Joined::new(gpu.info().sms as usize);
    let mut quiet = 0;
    for _ in 0..MOST {
        let mut is_new = false;
        for size in SIZES {
            let clusters = match places.clusters(size, stream) {
                Err(KernelError::Unsupported(_)) => continue,
                clusters => clusters?,
            };
            for cluster in clusters {
                is_new |= joined.join(&cluster);
            }
        }
        quiet = if is_new { 0 } else { quiet + 1 };
        if quiet == QUIET {
            return Ok(joined.gpcs());
        }
    }
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sms_of_a_chain_of_clusters_are_of_one_gpc() {
        let mut joined = Joined::new(8);
        assert!(joined.join(&[6, 2]) && joined.join(&[0, 4]) && joined.join(&[1, 3, 5]));
        assert!(joined.join(&[2, 7, 6]) && !joined.join(&[7, 6]));
        assert_eq!(joined.gpcs(), [0, 1, 2, 1, 0, 1, 2, 2]);
        assert!(joined.join(&[4, 7]));
        assert_eq!(joined.gpcs(), [0, 1, 0, 1, 0, 1, 0, 0]);
    }

    #[test]
    fn where_an_sm_was_seen_with_no_other_nothing_is_known() {
        let mut joined = Joined::new(3);
        joined.join(&[0, 1]);
        assert!(joined.gpcs().is_empty());
        // A number that the GPU has not is passed over.
        assert!(!joined.join(&[2, 9]));
    }
}
