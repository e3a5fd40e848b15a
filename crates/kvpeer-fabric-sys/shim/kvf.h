/* A flat face over the few libfabric calls that kvpeer makes.
 *
 * Most of libfabric's API is static inline functions over vtables, which only a C compiler can call. This
 * shim makes them ordinary functions with opaque handles; it holds no policy. Calls that can fail return 0 or
 * a negative libfabric code and, where several calls are made in a row, name the failed one in *call.
 *
 * Sources of the facts used here: the man pages fi_getinfo(3), fi_endpoint(3), fi_mr(3), fi_cq(3), fi_rma(3)
 * and fi_poll(3) of libfabric 1.17 and 2.x.
 */
#ifndef KVF_H
#define KVF_H

#include <stddef.h>
#include <stdint.h>

/* One provider opened: its description, fabric and domain. */
typedef struct kvf_fabric kvf_fabric;
/* What one peer may do to us and we to it: endpoint, completion queue, address table, memory registration. */
typedef struct kvf_right kvf_right;

/* What the opened provider asks of its user, in numbers. */
typedef struct kvf_traits {
	uint64_t max_message;      /* bytes in one write */
	uint64_t transmit_depth;   /* writes in flight per endpoint */
	uint64_t iov_limit;        /* local pieces of one write */
	uint64_t key_bytes;        /* size of a memory key */
	uint32_t address_format;   /* FI_SOCKADDR_IN, ... */
	uint8_t virtual_addresses; /* remote addresses are virtual ones, not offsets into the registration */
	uint8_t provider_keys;     /* the provider chooses memory keys, we cannot */
} kvf_traits;

/* One completed write: error is 0, or a positive libfabric code (context may then be NULL). */
typedef struct kvf_completion {
	void *context;
	int32_t error;
	int32_t provider_error;
} kvf_completion;

/* One local piece of a write. */
typedef struct kvf_piece {
	void *base;
	size_t len;
} kvf_piece;

enum { KVF_MAX_PIECES = 4, KVF_CONTEXT_BYTES = 64, KVF_NAME_MAX = 255 };

/* Codes that Rust must tell apart, and address formats whose layout it checks. */
extern const int32_t kvf_eagain, kvf_ekey_taken;
extern const uint32_t kvf_format_in, kvf_format_in6, kvf_format_str;

uint32_t kvf_version(void); /* of the library loaded, major << 16 | minor */
const char *kvf_strerror(int32_t code);
int32_t kvf_visit_providers(void (*visit)(void *arg, const char *name, uint32_t version), void *arg);

/* node is a numeric address to listen on, or NULL for providers without addresses. */
int32_t kvf_fabric_open(const char *provider, const char *node, int delivery_complete, kvf_fabric **out,
			const char **call);
void kvf_fabric_traits(const kvf_fabric *fabric, kvf_traits *out);
const char *kvf_fabric_name(const kvf_fabric *fabric); /* the provider's full name, with layers */
int32_t kvf_fabric_close(kvf_fabric *fabric); /* every right must be closed; frees the handle even on error */

/* Registers base..base+len under the key (ignored if the provider chooses keys) for local reads by our own
 * writes and for remote writes. *out is NULL on failure and everything made so far is closed again. */
int32_t kvf_right_open(kvf_fabric *fabric, void *base, size_t len, uint64_t key, size_t queue_depth,
		       kvf_right **out, const char **call);
/* Closes the endpoint, after which nothing lands through it. 0 if that is proved; may be called again. */
int32_t kvf_right_fence(kvf_right *right);
/* Closes queue (unread), registration and address table; frees the handle if all of that succeeded. Call only
 * after kvf_right_fence returned 0. */
int32_t kvf_right_close(kvf_right *right, const char **call);

int32_t kvf_right_name(const kvf_right *right, void *name, size_t *len);
uint64_t kvf_right_key(const kvf_right *right);
int32_t kvf_right_fd(const kvf_right *right);      /* -1: this provider has none */
int32_t kvf_right_trywait(const kvf_right *right); /* 0: may sleep on the fd; kvf_eagain: poll first */
/* name must hold KVF_NAME_MAX bytes, zero-filled behind the name: the call takes no length. */
int32_t kvf_right_insert(kvf_right *right, const void *name, uint64_t *address);

/* The pieces and the context must stay untouched until the write completes or the right is closed. */
int32_t kvf_right_write(kvf_right *right, const kvf_piece *pieces, size_t count, uint64_t address,
			uint64_t remote, uint64_t key, void *context, int more);
/* The number of entries filled in, at most max, or a negative code. Never call it after kvf_right_fence. */
int64_t kvf_right_poll(kvf_right *right, kvf_completion *out, size_t max);

#endif
