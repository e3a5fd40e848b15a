#include "kvf.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

/* The oldest API kvpeer is built and tested against; newer libraries keep its meaning. */
#define KVF_API FI_VERSION(1, 17)

struct kvf_fabric {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	uint64_t completion; /* flags of each write */
};

struct kvf_right {
	kvf_fabric *owner;
	struct fid_ep *ep; /* NULL once fenced */
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_mr *mr;
	int fd; /* of the queue, or -1 */
};

const int32_t kvf_eagain = -FI_EAGAIN;
const int32_t kvf_ekey_taken = -FI_ENOKEY;
const uint32_t kvf_format_in = FI_SOCKADDR_IN;
const uint32_t kvf_format_in6 = FI_SOCKADDR_IN6;
const uint32_t kvf_format_str = FI_ADDR_STR;

/* src/lib.rs asserts the same sizes. */
_Static_assert(sizeof(kvf_traits) == 40 && sizeof(kvf_completion) == 16 && sizeof(kvf_piece) == 16,
	       "the layouts that Rust declares, on 64-bit targets");
_Static_assert(sizeof(struct fi_context2) <= KVF_CONTEXT_BYTES, "contexts must hold a struct fi_context2");

/* Remembers which call failed, and leaves through `out` with its code in `ret`. */
#define TRY(what, expr)              \
	do {                         \
		*call = what;        \
		ret = (int32_t)(expr); \
		if (ret)             \
			goto out;    \
	} while (0)

uint32_t kvf_version(void)
{
	return fi_version();
}

const char *kvf_strerror(int32_t code)
{
	return fi_strerror(code < 0 ? -code : code);
}

/* What any provider must be able to do for us; the rest of the hints is in kvf_fabric_open. */
static struct fi_info *basic_hints(void)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		return NULL;
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_RMA;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
	return hints;
}

int32_t kvf_visit_providers(void (*visit)(void *arg, const char *name, uint32_t version), void *arg)
{
	struct fi_info *hints = basic_hints(), *list = NULL;
	int32_t ret = -FI_ENOMEM;

	if (hints)
		ret = fi_getinfo(KVF_API, NULL, NULL, 0, hints, &list);
	for (struct fi_info *it = list; it && !ret; it = it->next)
		visit(arg, it->fabric_attr->prov_name, it->fabric_attr->prov_version);
	fi_freeinfo(list);
	fi_freeinfo(hints);
	return ret;
}

int32_t kvf_fabric_open(const char *provider, const char *node, int delivery_complete, kvf_fabric **out,
			const char **call)
{
	struct fi_info *hints = basic_hints();
	kvf_fabric *f = calloc(1, sizeof *f);
	int32_t ret = -FI_ENOMEM;

	*out = NULL;
	*call = "fi_allocinfo";
	if (!hints || !f || !(hints->fabric_attr->prov_name = strdup(provider)))
		goto out;
	f->completion = FI_COMPLETION | (delivery_complete ? FI_DELIVERY_COMPLETE : 0);
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->tx_attr->op_flags = f->completion;

	TRY("fi_getinfo", fi_getinfo(KVF_API, node, NULL, node ? FI_SOURCE : 0, hints, &f->info));
	TRY("fi_fabric", fi_fabric(f->info->fabric_attr, &f->fabric, NULL));
	TRY("fi_domain", fi_domain(f->fabric, f->info, &f->domain, NULL));
	*out = f;
	f = NULL;
out:
	if (f)
		kvf_fabric_close(f);
	if (hints)
		fi_freeinfo(hints);
	return ret;
}

void kvf_fabric_traits(const kvf_fabric *f, kvf_traits *out)
{
	const struct fi_info *info = f->info;

	out->max_message = info->ep_attr->max_msg_size;
	out->transmit_depth = info->tx_attr->size;
	out->iov_limit = info->tx_attr->iov_limit;
	out->key_bytes = info->domain_attr->mr_key_size;
	out->address_format = info->addr_format;
	out->virtual_addresses = !!(info->domain_attr->mr_mode & FI_MR_VIRT_ADDR);
	out->provider_keys = !!(info->domain_attr->mr_mode & FI_MR_PROV_KEY);
}

const char *kvf_fabric_name(const kvf_fabric *f)
{
	return f->info->fabric_attr->prov_name;
}

int32_t kvf_fabric_close(kvf_fabric *f)
{
	int32_t ret = 0, r;

	if (f->domain && (r = fi_close(&f->domain->fid)))
		ret = r;
	if (f->fabric && (r = fi_close(&f->fabric->fid)) && !ret)
		ret = r;
	if (f->info)
		fi_freeinfo(f->info);
	free(f);
	return ret;
}

/* A queue with a file descriptor if the provider can, else one that must be polled (shm: ENOSYS). */
static int32_t open_queue(kvf_right *r, size_t depth)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD, .size = depth };
	int32_t ret = fi_cq_open(r->owner->domain, &attr, &r->cq, NULL);

	if (!ret && !fi_control(&r->cq->fid, FI_GETWAIT, &r->fd))
		return 0;
	if (!ret && (ret = fi_close(&r->cq->fid)))
		return ret;
	r->fd = -1;
	attr.wait_obj = FI_WAIT_NONE;
	return fi_cq_open(r->owner->domain, &attr, &r->cq, NULL);
}

int32_t kvf_right_open(kvf_fabric *f, void *base, size_t len, uint64_t key, size_t queue_depth,
		       kvf_right **out, const char **call)
{
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE, .count = 1 };
	kvf_right *r = calloc(1, sizeof *r);
	const char *ignored;
	int32_t ret = -FI_ENOMEM;

	*out = NULL;
	*call = "calloc";
	if (!r)
		return ret;
	r->owner = f;
	r->fd = -1;
	TRY("fi_av_open", fi_av_open(f->domain, &av_attr, &r->av, NULL));
	TRY("fi_cq_open", open_queue(r, queue_depth));
	TRY("fi_endpoint", fi_endpoint(f->domain, f->info, &r->ep, NULL));
	TRY("fi_ep_bind", fi_ep_bind(r->ep, &r->av->fid, 0));
	TRY("fi_ep_bind", fi_ep_bind(r->ep, &r->cq->fid, FI_TRANSMIT | FI_RECV));
	TRY("fi_enable", fi_enable(r->ep));
	TRY("fi_mr_reg", fi_mr_reg(f->domain, base, len, FI_WRITE | FI_REMOTE_WRITE, 0, key, 0, &r->mr, NULL));
	if (f->info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
		TRY("fi_mr_bind", fi_mr_bind(r->mr, &r->ep->fid, 0));
		TRY("fi_mr_enable", fi_mr_enable(r->mr));
	}
	*out = r;
	return 0;
out:
	/* Nobody knows this endpoint's name yet: should closing it fail, only memory is lost. */
	if (!kvf_right_fence(r))
		kvf_right_close(r, &ignored);
	return ret;
}

int32_t kvf_right_fence(kvf_right *r)
{
	int32_t ret = r->ep ? fi_close(&r->ep->fid) : 0;

	/* Registrations bound to an endpoint (FI_MR_ENDPOINT) may have to go before it, says fi_mr(3) of 2.x. */
	if (ret == -FI_EBUSY && r->mr && !fi_close(&r->mr->fid)) {
		r->mr = NULL;
		ret = fi_close(&r->ep->fid);
	}
	if (!ret)
		r->ep = NULL;
	return ret;
}

int32_t kvf_right_close(kvf_right *r, const char **call)
{
	int32_t ret;

	if (r->cq)
		TRY("fi_close(cq)", fi_close(&r->cq->fid));
	r->cq = NULL;
	if (r->mr)
		TRY("fi_close(mr)", fi_close(&r->mr->fid));
	r->mr = NULL;
	if (r->av)
		TRY("fi_close(av)", fi_close(&r->av->fid));
	free(r);
	return 0;
out:
	return ret;
}

int32_t kvf_right_name(const kvf_right *r, void *name, size_t *len)
{
	return fi_getname(&r->ep->fid, name, len);
}

uint64_t kvf_right_key(const kvf_right *r)
{
	return fi_mr_key(r->mr);
}

int32_t kvf_right_fd(const kvf_right *r)
{
	return r->fd;
}

int32_t kvf_right_trywait(const kvf_right *r)
{
	struct fid *fid = &r->cq->fid;

	return fi_trywait(r->owner->fabric, &fid, 1);
}

int32_t kvf_right_insert(kvf_right *r, const void *name, uint64_t *address)
{
	int32_t ret = fi_av_insert(r->av, name, 1, address, 0, NULL);

	/* Without FI_EVENT the answer is the number of addresses inserted. */
	return ret == 1 ? 0 : ret < 0 ? ret : -FI_EINVAL;
}

int32_t kvf_right_write(kvf_right *r, const kvf_piece *pieces, size_t count, uint64_t address,
			uint64_t remote, uint64_t key, void *context, int more)
{
	struct iovec iov[KVF_MAX_PIECES];
	void *desc[KVF_MAX_PIECES];
	struct fi_rma_iov target = { .addr = remote, .len = 0, .key = key };
	struct fi_msg_rma msg = { .msg_iov = iov, .desc = desc, .iov_count = count, .addr = address,
				  .rma_iov = &target, .rma_iov_count = 1, .context = context, .data = 0 };

	if (count == 0 || count > KVF_MAX_PIECES)
		return -FI_EINVAL;
	for (size_t i = 0; i < count; i++) {
		iov[i].iov_base = pieces[i].base;
		iov[i].iov_len = pieces[i].len;
		desc[i] = fi_mr_desc(r->mr);
		target.len += pieces[i].len;
	}
	return (int32_t)fi_writemsg(r->ep, &msg, r->owner->completion | (more ? FI_MORE : 0));
}

int64_t kvf_right_poll(kvf_right *r, kvf_completion *out, size_t max)
{
	struct fi_cq_data_entry good[16];
	struct fi_cq_err_entry bad = { 0 };
	const size_t room = sizeof good / sizeof *good;
	ssize_t n = fi_cq_read(r->cq, good, max < room ? max : room);

	for (ssize_t i = 0; i < n; i++)
		out[i] = (kvf_completion){ .context = good[i].op_context };
	if (n != -FI_EAVAIL)
		return n == -FI_EAGAIN ? 0 : n;
	n = fi_cq_readerr(r->cq, &bad, 0);
	if (n <= 0)
		return n == -FI_EAGAIN ? 0 : n;
	/* Providers differ in the sign (shm of 1.17: negative); no error here ever means success. */
	out[0] = (kvf_completion){ .context = bad.op_context, .error = bad.err < 0 ? -bad.err : bad.err,
				   .provider_error = bad.prov_errno };
	if (out[0].error == 0)
		out[0].error = FI_EOTHER;
	return 1;
}
