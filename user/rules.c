// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The rules of a filter: how it treats packets. They are constants of the program in its slot, so a
 * change loads another program and puts it there; the record in `meta` announces the change first,
 * and says afterwards which constants are in force, also when the tool that made it died between.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "internal.h"

uint32_t xbloom_unkeyed_default(uint32_t policy)
{
	return policy == XBLOOM_POLICY_ALLOW ? XBLOOM_UNKEYED_ALL : 0;
}

int xbloom_check_rules(const struct xbloom_rules *rules, struct xbloom_error *err)
{
	if (!rules->fields || rules->fields & ~XBLOOM_FIELDS_ALL)
		return xbloom_fail(err, -EINVAL, "a key needs at least one field");
	if (rules->confirm && rules->policy == XBLOOM_POLICY_ALLOW)
		return xbloom_fail(err, -EINVAL,
				   "the exact map of --confirm is asked before a packet is dropped "
				   "for a maybe, and policy allow drops none: use block, or make a "
				   "filter without --confirm");
	return 0;
}

void xbloom_rules_to_params(const struct xbloom_rules *rules, struct xbloom_params *p)
{
	p->fields = rules->fields;
	p->policy = rules->policy;
	p->shadow = rules->shadow;
	p->unkeyed_drop = rules->unkeyed_drop;
	p->extras &= XBLOOM_EXEMPTS; /* what is exempt is no rule, and stays */
	p->extras |= rules->confirm ? XBLOOM_CONFIRM : 0;
	/* Absent keys as well: only so can it be told of how many keys some were false positives. */
	p->extras |= rules->sample ? XBLOOM_SAMPLE : 0;
	p->sample_every = rules->sample ? rules->sample : 1;
}

int xbloom_fill_slot(struct xbloom *f, int prog, struct xbloom_error *err)
{
	uint32_t slot = XBLOOM_SLOT;

	if (bpf_map_update_elem(f->fd[XBLOOM_PIN_SLOTS], &slot, &prog, BPF_ANY))
		return xbloom_fail_errno(err, -errno, "cannot put the program of %s in its slot",
					 f->name);
	return 0;
}

int xbloom_load_rules(struct xbloom *f, struct xbloom_params params, struct xbloom_error *err)
{
	const struct xbloom_prog_maps maps = {
		.filter = f->fd[XBLOOM_PIN_FILTER],
		.slots = f->fd[XBLOOM_PIN_SLOTS],
		.stats = f->fd[XBLOOM_PIN_STATS],
		.confirm = params.extras & XBLOOM_CONFIRM ? f->fd[XBLOOM_PIN_CONFIRM] : -1,
		.samples = params.extras & XBLOOM_SAMPLE ? f->fd[XBLOOM_PIN_SAMPLES] : -1,
		.nets4 = params.nets4 ? f->fd[XBLOOM_PIN_NETS4] : -1,
		.exempt = params.exempt_trie ? f->fd[XBLOOM_PIN_EXEMPT] : -1,
	};

	params.blocks = f->geometry.blocks;
	params.bits = f->geometry.bits;
	params.layout = f->geometry.layout;
	params.k = f->geometry.k;
	return xbloom_load_slot(&maps, &params, err);
}

uint32_t xbloom_prog_id(int prog)
{
	struct bpf_prog_info info = { 0 };
	uint32_t len = sizeof(info);

	return bpf_obj_get_info_by_fd(prog, &info, &len) ? 0 : info.id;
}

const struct xbloom_params *xbloom_params_in_force(const struct xbloom *f)
{
	uint32_t pending = __atomic_load_n(&f->meta->pending, __ATOMIC_ACQUIRE);
	uint32_t slot = XBLOOM_SLOT, id = 0;

	/* To user space a slot reads as the id of its program. */
	if (pending && !bpf_map_lookup_elem(f->fd[XBLOOM_PIN_SLOTS], &slot, &id) && id == pending)
		return &f->meta->next;
	return &f->meta->params;
}

void xbloom_settle_rules(struct xbloom *f)
{
	const struct xbloom_params *now = xbloom_params_in_force(f);

	if (now == &f->meta->next)
		f->meta->params = f->meta->next;
	__atomic_store_n(&f->meta->pending, 0, __ATOMIC_RELEASE);
}

void xbloom_rules(const struct xbloom *f, struct xbloom_rules *rules)
{
	const struct xbloom_params *p = xbloom_params_in_force(f);

	*rules = (struct xbloom_rules){
		.fields = p->fields,
		.policy = p->policy,
		.shadow = p->shadow,
		.unkeyed_drop = p->unkeyed_drop,
		.confirm = p->extras & XBLOOM_CONFIRM,
		.sample = p->extras & XBLOOM_SAMPLE ? p->sample_every : 0,
	};
}

/* The ring buffer that a sampling program writes to: made when it is first wanted, and then kept. */
static int make_ring(struct xbloom *f, struct xbloom_error *err)
{
	char path[XBLOOM_PATH_MAX];
	AUTO_CLOSE int fd = -1;
	int ret;

	if (f->fd[XBLOOM_PIN_SAMPLES] >= 0)
		return 0;
	ret = xbloom_pin_path(path, f->name, XBLOOM_PIN_SAMPLES, err);
	if (ret)
		return ret;
	fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "xbloom_samples", 0, 0, XBLOOM_SAMPLES_BYTES,
			    NULL);
	if (fd < 0)
		return xbloom_fail_errno(err, -errno, "cannot make the ring buffer of filter %s",
					 f->name);
	if (bpf_obj_pin(fd, path))
		return xbloom_fail_errno(err, -errno, "cannot pin %s", path);
	f->fd[XBLOOM_PIN_SAMPLES] = fd;
	fd = -1;
	return 0;
}

int xbloom_change_params(struct xbloom *f, const struct xbloom_params *next,
			 struct xbloom_error *err)
{
	struct xbloom_meta *m = f->meta;
	AUTO_CLOSE int prog = -1;
	uint32_t id;
	int ret;

	m->next = *next;
	prog = xbloom_load_rules(f, m->next, err);
	if (prog < 0)
		return prog;
	id = xbloom_prog_id(prog);
	if (!id)
		return xbloom_fail(err, -EIO, "the new program of %s has no id", f->name);
	__atomic_store_n(&m->pending, id, __ATOMIC_RELEASE);
	ret = xbloom_fill_slot(f, prog, err);
	xbloom_settle_rules(f);
	return ret;
}

/* The map of IPv4 prefixes: made when the first one comes, and then kept. */
static int make_nets4(struct xbloom *f, struct xbloom_error *err)
{
	char path[XBLOOM_PATH_MAX];
	AUTO_CLOSE int fd = -1;
	int ret = xbloom_pin_path(path, f->name, XBLOOM_PIN_NETS4, err);

	if (ret || f->fd[XBLOOM_PIN_NETS4] >= 0)
		return ret;
	fd = xbloom_make_nets4(f->lives, err);
	if (fd < 0)
		return fd;
	if (bpf_obj_pin(fd, path))
		return xbloom_fail_errno(err, -errno, "cannot pin %s", path);
	f->fd[XBLOOM_PIN_NETS4] = fd;
	fd = -1;
	return xbloom_map_all(f, err);
}

int xbloom_widen(struct xbloom *f, const struct xbloom_prefix_plan *plan, struct xbloom_error *err)
{
	struct xbloom_params next = f->meta->params;
	bool nets4 = plan->nets4 && !next.nets4;
	int ret = 0;

	if (plan->nets4)
		ret = make_nets4(f, err);
	if (ret)
		return ret;
	if (!nets4 && (plan->n_plens6 <= 1 || plan->n_plens6 == next.n_plens6))
		return 0;
	next.nets4 |= nets4;
	xbloom_set_plens6(&next, plan->plens6, plan->n_plens6);
	return xbloom_change_params(f, &next, err);
}

void xbloom_set_plens6(struct xbloom_params *p, const uint32_t *plens6, unsigned int n)
{
	unsigned int i;

	memset(p->plens6, 0, sizeof(p->plens6));
	p->n_plens6 = n;
	for (i = 0; i < n; i++) {
		p->plens6[i].plen = plens6[i];
		xbloom_raw_mask128(plens6[i], p->plens6[i].mask);
	}
}

int xbloom_set_rules(struct xbloom *f, const struct xbloom_rules *rules, struct xbloom_error *err)
{
	struct xbloom_params next = f->meta->params;
	int ret = xbloom_check_writable(f, err);

	if (ret)
		return ret;
	if (rules->fields != next.fields || rules->confirm != !!(next.extras & XBLOOM_CONFIRM))
		return xbloom_fail(err, -EINVAL,
				   "the key of a filter and its exact map cannot change: create "
				   "another filter");
	ret = xbloom_check_rules(rules, err);
	if (!ret && rules->sample)
		ret = make_ring(f, err);
	if (ret)
		return ret;
	xbloom_rules_to_params(rules, &next);
	return xbloom_change_params(f, &next, err);
}
