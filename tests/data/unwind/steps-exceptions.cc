// Executed one instruction at a time by test_unwind_steps: exceptions, destructors, virtual calls.
struct Noisy {
	volatile int *count;
	explicit Noisy(volatile int *c) : count(c) { ++*count; }
	~Noisy() { --*count; }
};

struct Base {
	virtual ~Base() {}
	virtual int work(int x) = 0;
};

static volatile int counter;

__attribute__((noinline)) static int thrower(int depth)
{
	Noisy noisy(&counter);
	if (depth == 0)
		throw 42;
	return thrower(depth - 1) + 1;
}

struct Derived : Base {
	__attribute__((noinline)) int work(int x) override
	{
		try {
			return thrower(x);
		} catch (int value) {
			return value;
		}
	}
};

int main()
{
	Derived derived;
	Base *volatile base = &derived;
	__asm__ volatile("int3");
	int result = base->work(2);
	__asm__ volatile("int3");
	return result == 42 ? 0 : 1;
}
